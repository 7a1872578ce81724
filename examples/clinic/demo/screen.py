"""What the terminal shows: plain aligned columns, and colour only where somebody looks at a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from examples.clinic.demo.watch import Sight

_COLOURS = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_OF_OUTCOME = {"retried": "yellow", "snoozed": "blue", "discarded": "dim", "dead": "red", "redriven": "green"}
_AGAIN = {"retried": "attempt {number}", "snoozed": "after its snooze", "redriven": "after its redrive"}
_EVENT = "{time:<12}  {event:<31}  {about:<18}  "
_REACTION = "{handler:<17}  {late:>9}  "
_WIDE = 128
_NARROW_INDENT = 14
_UNLIMITED = 10_000


class Screen:
    def __init__(self) -> None:
        sys.stdout.reconfigure(errors="replace", line_buffering=True)
        is_terminal = sys.stdout.isatty()
        self._coloured = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = shutil.get_terminal_size().columns if is_terminal else _UNLIMITED
        # Where a line cannot hold both, the event gets one of its own and its reactions stand below it.
        is_narrow = self._width < _WIDE
        self._indent = _NARROW_INDENT if is_narrow else len(_EVENT.format(time="", event="", about=""))
        self._between = f"\n{' ' * self._indent}" if is_narrow else ""
        self._last_event: str | None = None
        self._outcomes: dict[int, str] = {}

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        print(f"{what} … ", end="", flush=True)
        began = time.monotonic()
        try:
            yield
        except BaseException:
            print()
            raise
        print(self._paint(f"{time.monotonic() - began:.1f} s", "dim"))

    def header(self) -> None:
        event = _EVENT.format(time="committed", event="event", about="about")
        reaction = f"{_REACTION.format(handler='handler', late='late')}outcome"
        print("\n" + self._paint(f"{event}{self._between}{reaction}", "dim"))

    def sight(self, sight: Sight) -> None:
        if sight.row.event_id != self._last_event:
            self._last_event = sight.row.event_id
            self._print_event(sight)
        else:
            print(" " * self._indent, end="")
        late = "" if sight.late_ms is None else f"{sight.late_ms:,.1f} ms"
        reaction = _REACTION.format(handler=sight.row.subscriber, late=late)
        ending = _cut(self._ending(sight), self._width - self._indent - len(reaction))
        print(f"{reaction}{self._paint(ending, _OF_OUTCOME.get(sight.row.outcome))}")
        self._outcomes[sight.row.delivery_id] = sight.row.outcome

    def _print_event(self, sight: Sight) -> None:
        kind = f"{'↳ ' if sight.row.causation_id else ''}{sight.row.type}"
        text = _EVENT.format(time=_clock(sight.committed_at), event=kind, about=sight.about)
        # An event that is seen again steps back, so that the eye finds the new ones.
        colour = "dim" if sight.row.delivery_id in self._outcomes else None
        print(self._paint(text, colour), end=self._between)

    def remark(self, text: str) -> None:
        self._last_event = None
        print(f"{_clock(datetime.now().astimezone())}  {self._paint(text, 'bold')}")

    def trouble(self, text: str) -> None:
        print(self._paint(text, "red"), file=sys.stderr)

    def say(self, text: str, colour: str | None = None) -> None:
        print(self._paint(text, colour))

    def _ending(self, sight: Sight) -> str:
        match sight.row.outcome:
            case "retried":
                wait = "soon" if sight.wait_seconds is None else f"in {sight.wait_seconds:.1f} s"
                return f"failed, again {wait}: {sight.error}"
            case "snoozed":
                return f"snoozed until {_clock(sight.row.next_due_at)}" if sight.row.next_due_at else "snoozed"
            case "discarded":
                return f"discarded: {sight.error}"
            case "dead":
                return f"DEAD LETTER: {sight.error}"
            case "redriven":
                return sight.row.note
        again = _AGAIN.get(self._outcomes.get(sight.row.delivery_id, ""), "").format(number=sight.row.number)
        return f"delivered, {again}" if again else "delivered"

    def _paint(self, text: str, colour: str | None) -> str:
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if colour and self._coloured else text


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone():%H:%M:%S.%f}"[:-3]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 1)]}…"
