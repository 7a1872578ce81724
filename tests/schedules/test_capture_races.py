"""A row that is changed by raw SQL in the moment in which its reminder fires: with real workers and connections, one of
both comes first."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
import pytest
from django.db import connection

from duebox.models import Event, RowChange, Schedule, ScheduleLog
from duebox.schedules import capture
from duebox.schedules.fire import carry_out, fire_due, prepare
from duebox.when import minutes
from tests.app.people import Appointment, Person
from tests.app.planned import live, reminding
from tests.support import connection_params, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("forget_triggers")]

HOUR = timedelta(hours=1)
LATER = datetime(2037, 3, 1, 12, tzinfo=UTC)
AT_ONCE = 100
"""So many reminders fire in one turn, a few milliseconds after each other."""
WRITERS = 4


@pytest.fixture
def forget_triggers(transactional_db, forget_plans):
    yield
    with connection.cursor() as cursor:
        for table in capture.row_changes.installed("default"):
            cursor.execute(capture.row_changes.remove_sql(table.table, table.function))
    RowChange.objects.all().delete()


def psql(text):
    with psycopg.connect(**connection_params(), autocommit=True) as elsewhere:
        elsewhere.execute(text)


def planned():
    return not RowChange.objects.exists()


# The row itself


@pytest.mark.parametrize("rounds", [200, pytest.param(2_000, marks=pytest.mark.soak)])
def test_an_update_that_races_the_firing_has_one_outcome(hire, rounds):
    """The transaction of the update sees which reminders have fired, after its statement and before its commit. That is
    all that fires by the old plan: none after the commit, and none twice. The new plan is there in any case."""
    reminding(minutes(-60))
    capture.install("default")
    hire()
    hire()
    seen: Counter[int] = Counter()
    shifts = [Shift()] * WRITERS
    for _ in range(0, rounds, AT_ONCE):
        outcome = race(shifts)
        rows = list(outcome)
        eventually(planned)
        threading.Event().wait(0.1)
        fired = Counter(Event.objects.filter(type="appointment.reminder").values_list("aggregate_id", flat=True))
        assert {pk: fired[str(pk)] for pk in rows} == outcome
        assert set(outcome.values()) <= {0, 1}
        new = dict(Schedule.objects.scheduled().values_list("aggregate_id", "due_at"))
        assert {pk: new.get(str(pk)) for pk in rows} == dict.fromkeys(rows, LATER - HOUR)
        seen.update(outcome.values())
    assert sum(seen.values()) == rounds
    assert min(seen[0], seen[1]) > rounds / 20, seen  # both come first often enough


class Shift(NamedTuple):
    """How much later than its reminder is due a writer changes a row. The step grows until the other side wins."""

    seconds: float = 0.0
    step: float = 0.003
    fired: int = -1


def race(shifts):
    """How many reminders of each row had fired when its change was committed. Each writer moves its moment towards that
    of the firing, whatever else the machine does, and keeps it in `shifts`."""
    for seconds in (1.5, 5, 15, 45):
        begin = datetime.now(UTC) + timedelta(seconds=seconds)
        dues = [begin + timedelta(milliseconds=12 * number) for number in range(AT_ONCE)]
        rows = Appointment.objects.bulk_create([Appointment(starts_at=due + HOUR) for due in dues])
        eventually(planned)
        if datetime.now(UTC) < begin:
            break
    with ThreadPoolExecutor(WRITERS) as writers:
        parts = writers.map(
            lambda number: change(list(zip(rows, dues, strict=True))[number::WRITERS], shifts, number), range(WRITERS)
        )
        return {pk: fired for part in parts for pk, fired in part.items()}


def change(rows, shifts, number):
    """Move each of these appointments about when its reminder fires."""
    found = {}
    with psycopg.connect(**connection_params()) as elsewhere:
        for row, due in rows:
            wait = (due - datetime.now(UTC)).total_seconds() + shifts[number].seconds
            threading.Event().wait(max(0.0, wait))
            elsewhere.execute("UPDATE app_appointment SET starts_at = %s WHERE id = %s", [LATER, row.pk])
            count = "SELECT count(*) FROM duebox_event WHERE type = 'appointment.reminder' AND aggregate_id = %s"
            [found[row.pk]] = elsewhere.execute(count, [str(row.pk)]).fetchone()
            elsewhere.commit()
            step = abs(shifts[number].step) * 2 if found[row.pk] == shifts[number].fired else 0.003
            step = min(step, 0.2) * (-1 if found[row.pk] else 1)
            shifts[number] = Shift(shifts[number].seconds + step, step, found[row.pk])
    return found


# A row that the plan follows


@pytest.fixture
def between():
    """What happens after the rows that are due were looked at and before they fire."""
    return []


@pytest.fixture
def appointment(between):
    """Its reminder is due by the zone of its person."""

    def still_valid(self, rows):
        while between:
            between.pop(0)()
        return rows

    reminding(minutes(-60), follows={Person: "person"}, still_valid=still_valid)
    capture.install("default")
    person = Person.objects.create(zone="UTC")
    for seconds in (2, 8, 30):
        at = datetime.now(UTC).replace(microsecond=0) + HOUR + timedelta(seconds=seconds)
        row = Appointment.objects.create(person=person, local_start=at.replace(tzinfo=None).isoformat())
        if live(row):
            break
        row.delete()  # past before it was planned
    eventually(lambda: next(iter(live(row).values())) <= datetime.now(UTC))
    return row


def move_to(zone):
    return lambda: psql(f"UPDATE app_person SET zone = '{zone}'")


def test_a_change_of_a_followed_row_that_commits_before_the_firing_statement_is_planned_first(appointment, between):
    between.append(move_to("America/New_York"))
    assert fire_due("default").events == 0
    assert not ScheduleLog.objects.exists()
    assert fire_due("default").events == 0
    capture.plan_changes("default")
    [due] = live(appointment).values()
    assert due > datetime.now(UTC) + 3 * HOUR
    assert not Event.objects.about(appointment).exists()


def test_a_change_of_a_followed_row_that_commits_after_it_was_planned_again_comes_after_the_firing(
    appointment, between
):
    psql("UPDATE app_person SET name = 'Bo'")
    between.append(move_to("America/New_York"))
    assert fire_due("default").events == 1
    capture.plan_changes("default")
    assert fire_due("default").events == 0
    assert Event.objects.about(appointment).count() == 1


def test_a_prepared_schedule_does_not_fire_after_a_followed_row_was_changed(appointment):
    from duebox.schedules import fire

    [plan] = fire._guards
    fire.unguard(plan)
    ready = prepare("default", limit=10, seconds=1.0, before=10.0).ready
    assert [each.row.aggregate_id for each in ready] == [str(appointment.pk)]
    move_to("America/New_York")()
    assert carry_out("default", ready, occurred=0.0) == ([], {ready[0].row.id})
    assert not Event.objects.about(appointment).exists()


def test_followed_rows_that_change_all_the_time_hold_up_no_reminder(appointment):
    stopped = threading.Event()

    def change_others():
        with psycopg.connect(**connection_params(), autocommit=True) as elsewhere:
            elsewhere.execute("INSERT INTO app_person (name, zone, born_on) VALUES ('other', 'UTC', '1990-01-01')")
            while not stopped.is_set():
                elsewhere.execute("UPDATE app_person SET name = name WHERE name = 'other'")

    with ThreadPoolExecutor(1) as writers:
        changing = writers.submit(change_others)
        try:
            eventually(lambda: RowChange.objects.count() > 5)
            eventually(lambda: fire_due("default").events, 5)
        finally:
            stopped.set()
        changing.result()
    assert Event.objects.about(appointment).count() == 1
