"""`duebox redrive`, `park` and `discard`: what becomes of dead letters."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.entrypoints.dead import EITHER, add_filters, filters, operator
from duebox.entrypoints.terminal import DRY_RUN, progress
from duebox.entrypoints.worker import positive
from duebox.store import dead as store
from duebox.store.pace import Pace
from duebox.store.targets import told_disabled

Act = Callable[[list[int]], list[int]]
_SHOWN = 5


def add_redrive_options(parser: CommandParser) -> None:
    _add_selection(parser)
    parser.add_argument("--all", action="store_true", help="every dead letter there is")
    parser.add_argument("--parked", action="store_true", help="of those that were set aside")
    parser.add_argument("--rate", type=per_second, metavar="N", help="so many a second become due (all at once)")


def add_park_options(parser: CommandParser) -> None:
    _add_selection(parser)
    parser.add_argument("--note", required=True, help="why, for whoever finds it")


def add_discard_options(parser: CommandParser) -> None:
    _add_selection(parser)
    parser.add_argument("--parked", action="store_true", help="of those that were set aside")
    parser.add_argument("--reason", required=True, help="why, for the history")


def redrive(command: BaseCommand, options: dict[str, Any]) -> None:
    """Make dead letters due again. Needs ids, a filter, or --all."""
    using, pace, note = _using(options), Pace(options["rate"]), f"redriven by {operator()}"
    _deal(command, options, "redriven", "due again", lambda ids: store.redrive(using, ids, note=note, pace=pace))


def park(command: BaseCommand, options: dict[str, Any]) -> None:
    """Set dead letters aside, with a note. One that others of its stream wait behind still blocks them."""
    using, note = _using(options), f"parked by {operator()}: {_words(options['note'])}"
    _deal(command, options, "parked", "parked", lambda ids: store.park(using, ids, note=note))


def discard(command: BaseCommand, options: dict[str, Any]) -> None:
    """Give dead or parked letters up for good. The event and the history stay; a stream that waited goes on."""
    using, note = _using(options), f"discarded by {operator()}: {_words(options['reason'])}"
    _deal(command, options, "discarded", "discarded", lambda ids: store.discard(using, ids, note=note))


def per_second(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate


def _add_selection(parser: CommandParser) -> None:
    parser.add_argument("id", nargs="*", type=int, help="dead letters by id")
    parser.add_argument("--limit", type=positive, metavar="N", help="no more than this, the oldest first")
    parser.add_argument("--dry-run", action="store_true", help="only say how many, and show one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_filters(parser)


def _deal(command: BaseCommand, options: dict[str, Any], word: str, said: str, act: Act) -> None:
    """Find those that are meant and deal with them, a part at a time."""
    using = _using(options)
    which = _chosen(options, using, word)
    _refuse_unknown_ids(using, options["id"], which)
    done: list[int] = []
    left: dict[int, str] = {}
    with progress(command, word, quiet=options["json"]) as tell:
        for ids in store.batches(using, limit=options["limit"], **which):
            left |= store.of_disabled(using, ids) if word == "redriven" else {}
            done += [each for each in ids if each not in left] if options["dry_run"] else act(ids)
            if tell:
                tell(len(ids))
    if options["json"]:
        also = {"left": list(left)} if word == "redriven" else {}
        command.stdout.write(json.dumps({word: done, **also, "dry_run": options["dry_run"]}))
        return
    command.stdout.write(f"{len(done)} {'would be ' if options['dry_run'] else ''}{said}.")
    _tell_left(command, Counter(left.values()))
    if options["dry_run"] and done:
        _show_one(command, using, done[0])


def _tell_left(command: BaseCommand, left: Counter[str]) -> None:
    """Letters of disabled endpoints, those with the most first."""
    for name, many in left.most_common(_SHOWN):
        command.stdout.write(f"{many} left: {told_disabled(name)}")
    if (rest := len(left) - _SHOWN) > 0:
        command.stdout.write(f"And those of {rest} more that are disabled.")


def _show_one(command: BaseCommand, using: str, id: int) -> None:
    [sample] = store.find(using, ids=[id], statuses=EITHER)
    told = f"{sample.event_type} to {sample.subscriber}: {printable(sample.error_line)}"
    command.stdout.write(f"The first of them is {sample.id}, {told}")
    command.stdout.write(DRY_RUN)


def _chosen(options: dict[str, Any], using: str, word: str) -> store.Which:
    which = filters(options, using)
    if not (options["id"] or which or options.get("all") or options.get("parked")):
        every = ", or --all" if "all" in options else ""
        raise CommandError(
            f"Say which ones: ids, --type, --subscriber, --group, --organization, --since{every}. "
            "`duebox dead` lists them."
        )
    if options["id"]:
        which["ids"] = options["id"]
        which["statuses"] = ["dead"] if word == "parked" else EITHER
    elif options.get("parked"):
        which["statuses"] = ["parked"]
    return which


def _refuse_unknown_ids(using: str, ids: list[int], which: store.Which) -> None:
    """One wrong id stops all: it may be a slip of the keyboard."""
    found = {each for part in store.batches(using, **which) for each in part} if ids else set()
    if missing := sorted(set(ids) - found):
        raise CommandError(f"No dead letter has the id {', '.join(map(str, missing))}; `duebox dead` lists them.")


def _words(text: str) -> str:
    if not text.strip():
        raise CommandError("Say why in a few words; whoever reads the history will want to know.")
    return text.strip()


def _using(options: dict[str, Any]) -> str:
    return str(options["database"] or conf().DATABASE)
