"""`duebox events docs`: a page for each type of event, and one document for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.conf import conf
from duebox.contracts.asyncapi import asyncapi
from duebox.contracts.documents import Folder, Report, pages, public_pages
from duebox.contracts.types import EventType, declared
from duebox.exceptions import InvalidContract

NO_TYPES = "No event types are declared; put @duebox.event above a class in events.py of an app."
NO_PUBLIC_TYPES = "No event type is public; say public={...} in the declaration of one."


def add_documents_options(parser: CommandParser) -> None:
    parser.add_argument("--out", metavar="FOLDER", help="where the pages go, as in docs/events")
    parser.add_argument("--asyncapi", metavar="FILE", help="where an AsyncAPI document goes, as JSON")
    parser.add_argument("--public", action="store_true", help="only public events, for others to read")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of step")
    parser.add_argument("--json", action="store_true", help="print JSON")


def documents(command: BaseCommand, options: dict[str, Any]) -> None:
    """Write documents of the event types, or check that they are in step."""
    if not (options["out"] or options["asyncapi"]):
        raise CommandError("Say where: --out FOLDER for pages, --asyncapi FILE for an AsyncAPI document, or both.")
    kinds = _kinds(public=options["public"])
    reports = [each for each in (_pages(kinds, options), _asyncapi(kinds, options)) if each is not None]
    if options["json"]:
        command.stdout.write(json.dumps(_as_dict(reports)))
    else:
        command.stdout.write("\n".join(_told(reports, options["check"])))
    if options["check"] and not all(report.in_step for _, report in reports):
        raise CommandError("The documents are out of step with the event types; run it again without --check.")


def _kinds(*, public: bool) -> tuple[EventType, ...]:
    kinds = declared()
    if not kinds:
        raise CommandError(NO_TYPES)
    if public and not (kinds := tuple(kind for kind in kinds if kind.twin_of)):
        raise CommandError(NO_PUBLIC_TYPES)
    return kinds


Written = tuple[Path, Report]


def _pages(kinds: tuple[EventType, ...], options: dict[str, Any]) -> Written | None:
    if not options["out"]:
        return None
    place = Path(options["out"])
    if options["public"]:
        return place, _settled(Folder(place, public_pages(kinds)), options["check"])
    return place, _settled(Folder(place, pages(kinds), inner=["public"]), options["check"])


def _settled(folder: Folder, only_check: bool) -> Report:
    try:
        return folder.compared() if only_check else folder.write()
    except InvalidContract as error:
        raise CommandError(str(error)) from error


def _asyncapi(kinds: tuple[EventType, ...], options: dict[str, Any]) -> Written | None:
    if not options["asyncapi"]:
        return None
    path = Path(options["asyncapi"])
    service = conf().PRODUCER
    title = f"{'Public events' if options['public'] else 'Events'}{f' of {service}' if service else ''}"
    text = json.dumps(asyncapi(kinds, title=title), indent=2, ensure_ascii=False) + "\n"
    old = path.read_text(encoding="utf-8") if path.exists() else None
    if not options["check"] and old != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.parent, Report(
        missing=(path.name,) if old is None else (),
        changed=(path.name,) if old not in (None, text) else (),
        unchanged=int(old == text),
    )


def _as_dict(reports: list[Written]) -> dict[str, Any]:
    def of(word: str) -> list[str]:
        return [str(place / name) for place, report in reports for name in getattr(report, word)]

    counts = {"unchanged": sum(report.unchanged for _, report in reports)}
    return {**{word: of(word) for word in ("missing", "changed", "stale", "foreign")}, **counts}


def _told(reports: list[Written], only_check: bool) -> list[str]:
    words = {"missing": "written", "changed": "written anew", "stale": "removed", "foreign": "left alone"}
    if only_check:
        words = {
            "missing": "missing",
            "changed": "out of date",
            "stale": "of a type that is gone",
            "foreign": "not ours",
        }
    found = _as_dict(reports)
    lines = [f"{meaning}: {path}" for word, meaning in words.items() for path in found[word]]
    return [*lines, f"{found['unchanged']} in step already."] if lines else [f"All {found['unchanged']} are in step."]
