"""The time lapse on the terminal: one line for everything that the clock brings."""

from __future__ import annotations

from datetime import datetime

from duebox import Upcoming
from duebox.when import ClockChange
from examples.clinic.demo.lapse import book
from examples.clinic.demo.lapse.sights import Sight
from examples.clinic.demo.screen import Screen
from examples.clinic.timelapse import TimeLapse

_LINE = "{local:<16}  {zone:<17}  {utc:<12}  {late:>8}  {what:<9}  {text}"
_MARKS = {
    "gap_shifted_forward": "{meant:%H:%M} does not exist that day",
    "fold_first": "{meant:%H:%M} comes twice that day; the first",
    "leap_moved": "29 Feb does not exist that year",
    "skipped": "passed over: no longer valid",
    "missed": "MISSED",
}


class Lines:
    def __init__(self, screen: Screen, lapse: TimeLapse) -> None:
        self._screen = screen
        self._lapse = lapse

    def header(self) -> None:
        names = {"local": "local time", "zone": "zone", "utc": "UTC", "late": "late", "what": "what", "text": "to"}
        self._screen.say("\n" + _LINE.format(**names), "dim")

    def sight(self, sight: Sight) -> None:
        late = "" if sight.late is None else f"{self._lapse.real_ms(sight.late):,.1f} ms"
        text = _marked(sight.text, sight.mark, sight.due, sight.zone)
        self._print(sight.due, sight.zone, sight.type, late, text, _colour(sight))

    def upcoming(self, one: Upcoming, name: str) -> None:
        text = _marked(f"{name}, {one.at:%Y}", next(iter(one.marks), ""), one.at, one.zone)
        self._print(one.at, one.zone, one.type, "", text, None)

    def remark(self, moment: datetime, text: str) -> None:
        self._screen.say(f"{_day(moment)}  {'UTC':<17}  {text}", "bold")

    def clock_change(self, zone: str, change: ClockChange) -> None:
        before, after = (book.wall(change.instant + offset, "UTC") for offset in (change.before, change.after))
        text = f"──── clocks go from {before:%H:%M} to {after:%H:%M} ────"
        self._screen.say(f"{_day(after)}  {zone:<17}  {change.instant:%d %b %H:%M}  {text}", "blue")

    def _print(self, due: datetime, zone: str, kind: str, late: str, text: str, colour: str | None) -> None:
        local, what = _day(book.wall(due, zone)), _what(kind)
        utc = f"{due:%d %b %H:%M}"
        self._screen.say(_LINE.format(local=local, zone=zone, utc=utc, late=late, what=what, text=text), colour)


def _what(kind: str) -> str:
    """`appointment.reminder_due` → "reminder": that its time has come goes without saying here."""
    return kind.rpartition(".")[2].removesuffix("_due").removesuffix("_came").replace("_", " ")


def _marked(text: str, mark: str, due: datetime, zone: str) -> str:
    if not mark:
        return text
    # What the clock would have shown, had it not been changed.
    meant = book.wall(due, zone) - (book.offset(due, zone) - book.offset(due - book.A_DAY, zone))
    return f"{text}  ← {_MARKS.get(mark, mark).format(meant=meant)}"


def _colour(sight: Sight) -> str | None:
    if sight.sent_at is None:
        return "dim"
    return "yellow" if sight.mark else None


def _day(moment: datetime) -> str:
    return f"{moment:%a %d %b %H:%M}"
