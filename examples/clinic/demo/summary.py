from __future__ import annotations

import math
import statistics

from examples.clinic.demo.audit import Audit
from examples.clinic.demo.client import Client
from examples.clinic.demo.screen import Screen


def show_summary(screen: Screen, found: Audit, client: Client, late_ms: list[float], seconds: float) -> None:
    outcomes = found.outcomes
    done = outcomes["delivered"] + outcomes["discarded"]
    lines = [
        ("requests", len(client.statuses), f"{len(client.refused)} rolled back, leaving {found.ghosts} events"),
        ("events", found.events, f"{found.events / seconds:.1f} a second; {_origins(found)}"),
        ("public", found.public, "of what others may see, each with its event; nothing personal in them"),
        ("audit log", found.recorded, "changes of roles and phone numbers, in a chain that was verified"),
        ("deliveries", done, f"{found.expected} expected: each event to each of its handlers"),
        ("retried", outcomes["retried"], ""),
        ("snoozed", outcomes["snoozed"], ""),
        ("dead letters", outcomes["dead"], f"{outcomes['redriven']} redriven"),
        ("lost", found.lost, ""),
    ]
    screen.say(f"\n{seconds:.1f} s of visitors", "bold")
    for name, count, remark in lines:
        screen.say(f"  {name:<12}  {count:>6,}  {remark}".rstrip())
    screen.say(f"  {'lateness':<12}  {_lateness(late_ms)}")
    _show_verdict(screen, found)


def _origins(found: Audit) -> str:
    return f"{found.caused} emitted by handlers, {found.scheduled} by schedules"


def _show_verdict(screen: Screen, found: Audit) -> None:
    for problem in found.problems:
        screen.say(f"WRONG: {problem}", "red")
    if not found.problems:
        screen.say("Nothing lost, nothing twice, nothing from a rolled-back request, every timeline in order.", "green")


def _lateness(late_ms: list[float]) -> str:
    if not late_ms:
        return "nothing was handled"
    ordered = sorted(late_ms)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return f"median {statistics.median(ordered):.1f} ms, p99 {p99:.1f} ms from commit to handler start"
