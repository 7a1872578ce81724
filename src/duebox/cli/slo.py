"""`duebox slo` and `duebox advise`: the state of the objectives, and advice for a growing load."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.cli.output import aligned
from duebox.events.identities import printable
from duebox.observe.advise import advise as advice_of
from duebox.observe.slo import BROKEN, Objective
from duebox.observe.slo import slo as report_of


def add_options(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def slo(command: BaseCommand, options: dict[str, Any]) -> None:
    """Show service level objectives, and event types that stopped. Exit with 1 if one is broken."""
    report = report_of(using=options["database"])
    if options["json"]:
        command.stdout.write(json.dumps(report.as_dict()))
    else:
        head = ["objective", "now", "target", "alert", "burn 1 h", "burn 24 h", "state"]
        for line in aligned(head, [_row(each) for each in report.objectives]):
            command.stdout.write(line)
        if report.counted_until is None:
            command.stdout.write("No minute was counted yet; a worker does it a few seconds after each minute.")
    problems = [
        f"{each.title} is {each.shown(each.value)}{_unit(each)}, beyond the alert threshold of {each.shown(each.alert)}"
        f"{_unit(each)}"
        for each in report.objectives
        if each.state == BROKEN
    ]
    problems += [printable(each.text) for each in report.absent]
    if problems:
        raise CommandError("\n".join(problems))


def _row(each: Objective) -> list[str]:
    burns = ["-" if burn is None else f"{burn:.2f}" for burn in (each.burn_1h, each.burn_24h)]
    values = [
        each.shown(value) + (_unit(each) if value is not None else "")
        for value in (each.value, each.target, each.alert)
    ]
    return [each.title, *values, *burns, each.state]


def _unit(each: Objective) -> str:
    return f" {each.unit}" if each.unit else ""


def advise(command: BaseCommand, options: dict[str, Any]) -> None:
    """Measure rates, delays, failures and the database, and advise what to change."""
    found = advice_of(using=options["database"])
    if options["json"]:
        command.stdout.write(json.dumps(found.as_dict()))
        return
    for name, value in {**found.metrics, **found.facts}.items():
        command.stdout.write(f"{name:<28}{'-' if value is None else f'{value:,.2f}'.rstrip('0').rstrip('.')}")
    for each in found.recommendations:
        command.stdout.write(f"\n{each.issue}: {each.current:,g}, the threshold is {each.threshold:,g}")
        command.stdout.write(printable(f"  {each.recommendation}"))
    if not found.recommendations:
        command.stdout.write("\nNothing needs to change.")
