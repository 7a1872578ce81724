"""`duebox schemas check`: does a changed schema break anybody?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.contracts import declared, files
from duebox.contracts.compat import MODES, Finding, findings
from duebox.entrypoints.schemas_before import Before, before

SHOWN = 12
"""Findings about one schema, and files out of step, when people read them."""


def add_check_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--against", required=True, metavar="REF|FOLDER", help="compare with the schemas of this commit, or folder"
    )
    parser.add_argument(
        "--mode", choices=MODES, default="full", help="whom a change must not break (full: nobody, additions only)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def check(command: BaseCommand, options: dict[str, Any]) -> None:
    """Compare the schema files with those of a commit or a folder. Fails when a change breaks somebody."""
    place = files.folder()
    old, new = before(options["against"], place), files.read(place)
    found = findings(old.schemas, new, mode=options["mode"])
    apart = files.differences(place, declared())
    refusal = " ".join(_refusal(found, apart))
    if options["json"]:
        told = {"against": old.where, "mode": options["mode"], "compared": len(old.schemas), "ok": not refusal}
        told["out_of_step"] = [{"file": each.path.name, "what": each.what} for each in apart]
        command.stdout.write(json.dumps({**told, "findings": [each.as_dict() for each in found]}, indent=2))
    else:
        command.stdout.write("\n".join(_in_words(found, old, len(new), passes=not refusal)))
    if refusal:
        raise CommandError(refusal)


def _refusal(found: Sequence[Finding], apart: Sequence[files.Difference]) -> Iterator[str]:
    if breaks := sum(each.breaks for each in found):
        yield f"{_count(breaks, 'change')} cannot pass; a repair is named with each."
    if apart:  # a change that is only in the code was not compared with anything
        listed = ", ".join(f"{each.path.name} is {each.what}" for each in apart[:SHOWN])
        more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        yield f"The schema files are not what the code declares: {listed}{more}. Run: manage.py duebox schemas write"


def _in_words(found: Sequence[Finding], old: Before, now: int, *, passes: bool) -> Iterator[str]:
    for (type, version), group in groupby(found, key=lambda each: (each.type, each.version)):
        yield f"{type} v{version}"
        about = list(group)
        for each in about[:SHOWN]:
            yield from _finding(each)
        if len(about) > SHOWN:
            yield f"  and {len(about) - SHOWN} more; --json lists all"
    if not old.schemas:
        yield f"Nothing to compare with: {old.where} has no schemas. There are {now} now."
        return
    looks = sum(not each.breaks for each in found)
    verdict = " Nothing breaks." if passes else ""
    more = f" {_count(looks, 'thing')} to look at." if looks else ""
    yield f"{_count(len(old.schemas), 'schema')} compared with {old.where}.{verdict}{more}"


def _finding(each: Finding) -> Iterator[str]:
    kind = f"breaks {each.direction}" if each.direction else "not an addition" if each.breaks else "look"
    yield f"  {kind}: {each.what}"
    if each.witness is not None:
        yield f"    event: {json.dumps(each.witness, ensure_ascii=False)}"
    yield f"    repair: {each.repair}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
