"""Holds what the visitors were told against what the database says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from duebox.audit_log import verify
from duebox.contracts import declared
from duebox.deliveries import receivers
from examples.clinic.demo.client import Client

_WITHOUT_ENTRY = """
    SELECT count(*) FROM duebox_event
    WHERE starts_with(type, 'appointment.') AND id NOT IN (SELECT event_id FROM clinic_timelineentry)
"""
_WITHOUT_TWIN = """
    SELECT count(*) FROM duebox_event event WHERE type = ANY (%s) AND NOT EXISTS (
        SELECT FROM duebox_event twin WHERE twin.causation_id = event.id AND twin.type = 'public.' || event.type
    )
"""
# Looked for in the text of the data, whatever the declarations say.
_LEAKS = """
    SELECT count(*) FROM duebox_event JOIN organizations_user person
    ON greatest(strpos(data::text, person.name), strpos(data::text, person.email), strpos(data::text, person.phone)) > 0
    WHERE starts_with(type, 'public.')
"""
_NUMBERS = """
    SELECT count(*) FROM duebox_audit JOIN organizations_user person
    ON strpos(changes::text, person.phone) > 0
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
    public: int = 0
    recorded: int = 0
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
    own = [event for event in events if not _is_public(event)]
    found.events, found.public = len(own), len(events) - len(own)
    found.caused = sum(1 for event in own if event[2])
    found.scheduled = sum(1 for event in events if event[4])
    found.outcomes.update(dict(_rows("SELECT outcome, count(*) FROM duebox_attempt GROUP BY outcome")))
    _compare_deliveries(found, events)
    _compare_requests(found, Counter(event[3] for event in own), client)
    _compare_twins(found)
    _verify_record(found)
    found.demand(_rows(_WITHOUT_ENTRY)[0][0], "appointment events are missing in the timeline")
    found.demand(_rows(_OUT_OF_ORDER)[0][0], "timeline entries are out of order")
    return found


def _compare_deliveries(found: Audit, events: list[tuple[Any, ...]]) -> None:
    expected = {(event[0], receiver) for event in events for receiver in receivers(event[1])}
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


def _compare_twins(found: Audit) -> None:
    with_twin = [kind.name for kind in declared() if kind.public]
    found.demand(_rows(_WITHOUT_TWIN, [with_twin])[0][0], "events have no public event, though they should")
    found.demand(_rows(_LEAKS)[0][0], "public events hold personal data")


def _verify_record(found: Audit) -> None:
    verdict = verify("default")
    found.recorded = verdict.entries + verdict.unsealed
    found.demand(verdict.flaws, "entries of the audit log are not as they were written")
    found.demand(_rows(_NUMBERS)[0][0], "entries of the audit log hold a phone number")


def _is_public(event: tuple[Any, ...]) -> bool:
    return bool(event[1].startswith("public."))


def _rows(statement: str, params: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())
