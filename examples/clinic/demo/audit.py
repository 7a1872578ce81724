"""Holds what the visitors were told against what the database says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from duebox.subscribers import receivers_of
from examples.clinic.demo.client import Client

_WITHOUT_ENTRY = """
    SELECT count(*) FROM duebox_event
    WHERE aggregate_type = 'appointment' AND id NOT IN (SELECT event_id FROM clinic_timelineentry)
"""
_OUT_OF_ORDER = """
    SELECT count(*) FROM (
        SELECT event_id, lag(event_id) OVER (PARTITION BY appointment_id ORDER BY id) AS before
        FROM clinic_timelineentry
    ) AS entry WHERE before > event_id
"""


@dataclass
class Audit:
    events: int = 0
    caused: int = 0
    scheduled: int = 0
    expected: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    ghosts: int = 0
    problems: list[str] = field(default_factory=list)

    def demand(self, wrong: int, problem: str) -> None:
        if wrong:
            self.problems.append(f"{wrong} {problem}")


def audit(client: Client) -> Audit:
    found = Audit()
    events = _rows(
        "SELECT id, type, causation_id, split_part(idempotency_key, '/', 1), metadata ? 'schedule' FROM duebox_event"
    )
    found.events = len(events)
    found.caused = sum(1 for event in events if event[2])
    found.scheduled = sum(1 for event in events if event[4])
    found.outcomes.update(dict(_rows("SELECT outcome, count(*) FROM duebox_attempt GROUP BY outcome")))
    _compare_deliveries(found, events)
    _compare_requests(found, Counter(event[3] for event in events), client)
    found.demand(_rows(_WITHOUT_ENTRY)[0][0], "appointment events are missing in the timeline")
    found.demand(_rows(_OUT_OF_ORDER)[0][0], "timeline entries are out of order")
    return found


def _compare_deliveries(found: Audit, events: list[tuple[Any, ...]]) -> None:
    expected = {(event[0], receiver.name) for event in events for receiver in receivers_of(event[1])}
    ends = _rows("SELECT event_id, subscriber FROM duebox_attempt WHERE outcome IN ('delivered', 'discarded')")
    found.expected = len(expected)
    found.lost = len(expected - set(ends))
    found.demand(found.lost, "deliveries never reached their handler")
    found.demand(len(ends) - len(set(ends)), "deliveries were made twice")


def _compare_requests(found: Audit, keys: Counter[str], client: Client) -> None:
    found.ghosts = sum(keys[key] for key in client.refused)
    found.demand(found.ghosts, "events exist although their request was rolled back")
    found.demand(sum(1 for key in client.accepted if not keys[key]), "accepted requests left no event")
    found.demand(sum(1 for key in client.accepted if keys[key] > 1), "accepted requests left more than one event")


def _rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
