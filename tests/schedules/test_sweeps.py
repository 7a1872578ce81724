"""Rows whose time has come get one event each, once per window, whoever looks and however many do."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import OperationalError, connection, connections, models, transaction
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

import duebox
from duebox import clock, when
from duebox.checks import check_event_spelling
from duebox.context import metrics
from duebox.contracts.enforce import Own
from duebox.events import subscribers
from duebox.events.outcomes import Retry
from duebox.exceptions import InvalidEvent, InvalidPlan, Permanent
from duebox.models import Attempt, Delivery, Event, Schedule, ScheduleLog
from duebox.schedules import sweep_run, sweeps
from duebox.schedules.sweeps import Sweep, ensure_schedules
from duebox.store import operations
from duebox.testing import drain, travel
from duebox.worker.connections import close_connections
from tests.app.models import Errand, Parcel, Project, Task
from tests.support import eventually

pytestmark = pytest.mark.django_db

DAY = timedelta(hours=24)
NOON = datetime(2026, 6, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def only_these_sweeps():
    """Each test declares its own; afterwards those of the project are there again."""
    known = sweeps.by_name()
    before = dict(known)
    known.clear()
    yield
    known.clear()
    known.update(before)


@pytest.fixture
def due_tasks(only_these_sweeps):
    return declare()


def declare(**attributes):
    """The sweep of the documentation, changed here and there; a row that fails is left to the next run."""

    def due(self, tasks, now):
        return tasks.filter(done=False, due_at__gt=now, due_at__lte=now + DAY)

    given = {"model": Task, "event": "task.due_soon", "stamp": "reminded_at", "due": due, "retry": Retry(limit=0)}
    return type("DueTasks", (Sweep,), {"data": lambda self, task: {"title": task.title}, **given, **attributes})


def tasks(count, **fields):
    fields = {"due_at": clock.now() + timedelta(hours=3), **fields}
    return Task.objects.bulk_create(Task(**{"title": f"task {number}", **fields}) for number in range(count))


def titles(event="task.due_soon"):
    return sorted(row.data["title"] for row in Event.objects.filter(type=event))


def refuse(title):
    def data(self, task):
        if task.title == title:
            raise ValueError(f"no luck with {title}")
        return {"title": task.title}

    return data


# What is found


def test_a_due_task_gets_one_event_about_it_and_its_stamp(due_tasks):
    project = Project.objects.create()
    [task] = tasks(1, project=project)
    before = timezone.now()
    swept = due_tasks.run()
    assert (swept.found, swept.stamped, swept.emitted, swept.failed) == (1, 1, 1, 0)
    event = Event.objects.get()
    assert (event.type, event.data) == ("task.due_soon", {"title": "task 0"})
    assert (event.aggregate_type, event.aggregate_id) == ("app.task", str(task.pk))
    task.refresh_from_db()
    stamped_at = task.reminded_at.isoformat()
    assert event.metadata == {"sweep": "app.DueTasks", "run": swept.run, "stamped_at": stamped_at}
    assert event.idempotency_key == f"app.DueTasks:{task.pk}/{swept.run}"
    assert before <= task.reminded_at <= timezone.now()


def test_tasks_that_are_not_due_are_left_alone(due_tasks):
    tasks(1, done=True)
    tasks(1, due_at=clock.now() + timedelta(hours=25))
    tasks(1, due_at=clock.now() - timedelta(hours=1))
    assert due_tasks.run().found == 0
    assert not Task.objects.filter(reminded_at__isnull=False).exists()
    assert not Event.objects.exists()
    assert not ScheduleLog.objects.exists()


def test_an_organization_is_passed_on_where_the_sweep_names_one():
    project = Project.objects.create()
    tasks(1, project=project)
    declare(organization=lambda self, task: task.project).run()
    assert Event.objects.get().organization == str(project.pk)


def test_a_sweep_without_data_emits_events_without_data():
    tasks(1)
    declare(data=Sweep.data).run()
    assert Event.objects.get().data == {}


@pytest.mark.parametrize(
    "due",
    [
        lambda self, rows, now: rows.filter(project__name="garden").distinct(),
        lambda self, rows, now: rows.filter(project__task__isnull=False),  # each row several times
        lambda self, rows, now: rows.annotate(all=Count("project__task")).filter(all__gte=3),
        lambda self, rows, now: rows.alias(all=Count("project__task")).filter(all__gte=3),
        lambda self, rows, now: rows.filter(project__isnull=False).union(rows.filter(title="nobody")),
        lambda self, rows, now: rows.select_related("project").filter(title__contains="%"),
        lambda self, rows, now: Task.objects.filter(pk__in=[task.pk for task in rows]),
        lambda self, rows, now: rows.filter(reminded_at__isnull=True),
        lambda self, rows, now: rows.extra(where=["title LIKE '%%task%%'"]),
        lambda self, rows, now: rows.order_by("project__name", "-title"),
        lambda self, rows, now: rows.exclude(project__name="house").only("title"),
    ],
)
def test_due_may_be_any_queryset_of_the_model(due):
    garden = Project.objects.create()
    for number in range(3):
        tasks(1, project=garden, title=f"100 % task {number}")
    assert declare(due=due, batch=2).run().emitted == 3
    assert titles() == ["100 % task 0", "100 % task 1", "100 % task 2"]


@pytest.mark.parametrize(
    "due",
    [
        lambda self, rows, now: rows.order_by("project", "pk").distinct("project"),
        lambda self, rows, now: rows.annotate(place=Window(RowNumber(), partition_by="project", order_by="pk")).filter(
            place=1
        ),
    ],
)
def test_due_may_choose_among_the_rows(due):
    for name in ("garden", "house", "boat"):
        tasks(4, project=Project.objects.create(name=name))
    assert declare(due=due, batch=1, limit=7).run().emitted == 3
    assert titles() == ["task 0", "task 0", "task 0"]


def test_due_that_finds_nothing_without_asking_is_fine():
    tasks(1)
    assert declare(due=lambda self, rows, now: rows.none()).run().found == 0


def test_data_sees_what_due_selected(django_assert_num_queries):
    for name in ("garden", "house", "boat"):
        tasks(1, project=Project.objects.create(name=name))

    def due(self, rows, now):
        return rows.select_related("project").annotate(hint=F("project__name"))

    sweep = declare(due=due, data=lambda self, task: {"title": task.project.name, "hint": task.hint})
    # The clock, the keys; two savepoints, and between them: stamp, load, emit, write the schedule log.
    with django_assert_num_queries(10):
        sweep.run()
    assert titles() == ["boat", "garden", "house"]


def test_the_table_of_an_inherited_model_may_hold_the_stamp():
    Errand.objects.create(due_at=clock.now() + timedelta(hours=1), title="bread")
    tasks(1)
    sweep = declare(model=Errand, data=lambda self, errand: {"title": f"{errand.title} from the {errand.place}"})
    assert [sweep.run().emitted, sweep.run().emitted] == [1, 0]
    assert titles() == ["bread from the market"]
    assert Task.objects.filter(reminded_at__isnull=False).count() == 1


def test_keys_tables_and_columns_may_be_of_any_kind():
    Parcel.objects.bulk_create(Parcel() for _ in range(7))
    sweep = declare(model=Parcel, stamp="told_at", due=lambda self, rows, now: rows.all(), data=Sweep.data, batch=3)
    assert [sweep.run().emitted, sweep.run().emitted] == [7, 0]
    assert Parcel.objects.filter(told_at__isnull=False).count() == 7


def test_a_sweep_works_with_parameters_bound_by_the_server(transactional_db, monkeypatch):
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"server_side_binding": True})
    try:
        tasks(5, title="a % of it")
        sweep = declare(batch=2, data=refuse("a % of it"))
        assert sweep.run().failed == 5
        assert declare(name="again", batch=2).run().emitted == 5
    finally:
        connection.close()


# Once per window


def test_a_task_is_reminded_once_whatever_the_number_of_runs(due_tasks):
    tasks(3)
    assert [due_tasks.run().emitted for _ in range(3)] == [3, 0, 0]
    assert Event.objects.count() == 3


def test_a_task_is_reminded_again_when_the_window_is_over():
    sweep = declare(due=lambda self, rows, now: rows.filter(done=False))
    with travel(NOON) as traveller:
        tasks(1)
        assert sweep.run().emitted == 1
        assert Task.objects.get().reminded_at == NOON
        traveller.by(timedelta(hours=23, minutes=59, seconds=59))
        assert sweep.run().emitted == 0
        traveller.by(timedelta(seconds=1))
        assert sweep.run().emitted == 1
        assert Task.objects.get().reminded_at == NOON + DAY


def test_without_a_window_a_task_is_reminded_once_until_its_stamp_is_taken_away():
    sweep = declare(due=lambda self, rows, now: rows.all(), again_after=None)
    with travel(NOON) as traveller:
        tasks(1)
        assert sweep.run().emitted == 1
        traveller.by(timedelta(days=1000))
        assert sweep.run().emitted == 0
        Task.objects.update(reminded_at=None)
        assert sweep.run().emitted == 1


def test_the_window_is_measured_on_the_clock_of_the_database(due_tasks):
    tasks(1, reminded_at=timezone.now() - timedelta(hours=23, minutes=59))
    tasks(1, reminded_at=timezone.now() - timedelta(hours=24, minutes=1))
    assert due_tasks.run().emitted == 1


# Batches, limits, dry runs


def test_a_run_takes_its_rows_in_batches(due_tasks, django_assert_max_num_queries):
    tasks(1200)
    # The clock and the keys, and three batches of eight queries: two for the transaction, two for the savepoint,
    # stamp, load, emit, write the schedule log.
    with django_assert_max_num_queries(26):
        assert due_tasks.run().emitted == 1200
    assert [row.title for row in Task.objects.filter(reminded_at__isnull=True)] == []


def test_a_full_last_batch_is_followed_by_a_look_that_finds_nothing():
    tasks(4)
    assert declare(batch=2).run().found == 4


@pytest.mark.parametrize(("declared", "given", "swept"), [(None, None, 5), (3, None, 3), (3, 4, 4), (None, 2, 2)])
def test_a_run_ends_at_its_limit_and_the_next_one_goes_on(declared, given, swept):
    tasks(5)
    sweep = declare(limit=declared, batch=2)
    assert sweep.run(limit=given).emitted == swept
    sweep.run()
    sweep.run()
    assert Event.objects.count() == 5


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_makes_no_sense_is_refused(due_tasks, limit):
    with pytest.raises(InvalidPlan, match=rf"limit of sweep app.DueTasks is {limit}; it must be a whole number above"):
        due_tasks.run(limit=limit)


def test_a_dry_run_only_counts(due_tasks):
    tasks(5)
    swept = due_tasks.run(dry_run=True)
    assert (swept.found, swept.stamped, swept.emitted, str(swept)) == (5, 0, 0, "app.DueTasks: 5 would be swept")
    assert due_tasks.run(dry_run=True, limit=2).found == 2
    assert not Event.objects.exists()
    assert not Task.objects.filter(reminded_at__isnull=False).exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_a_sweep_runs_on_the_database_that_it_is_told(due_tasks):
    Task.objects.using("other").create(due_at=clock.now() + timedelta(hours=1))
    assert due_tasks.run().found == 0
    assert due_tasks.run(using="other").emitted == 1
    assert Event.objects.using("other").count() == ScheduleLog.objects.using("other").count() == 1
    assert not Event.objects.exists()


def test_what_is_rolled_back_around_a_run_never_happened(due_tasks):
    tasks(2)
    with transaction.atomic():
        assert due_tasks.run().emitted == 2
        transaction.set_rollback(True)
    assert not Event.objects.exists()
    assert due_tasks.run().emitted == 2


# The order of rows


def spread(count):
    """Tasks in the reverse order of their deadlines."""
    hours = timedelta(hours=1)
    rows = [Task(title=f"task {number:02}", due_at=clock.now() + hours * (20 - number)) for number in range(count)]
    return Task.objects.bulk_create(rows)


def order_of_events():
    return [event.data["title"] for event in Event.objects.filter(type="task.due_soon").order_by("id")]


def soonest(self, rows, now):
    return rows.filter(done=False).order_by("due_at")


def test_rows_are_taken_in_the_order_of_the_query_and_a_limit_takes_the_first():
    spread(15)
    sweep = declare(due=soonest, batch=2)
    assert sweep.run(limit=5).emitted == 5
    assert order_of_events() == ["task 14", "task 13", "task 12", "task 11", "task 10"]
    assert sweep.run(limit=4).emitted == 4
    assert order_of_events()[5:] == ["task 09", "task 08", "task 07", "task 06"]


def test_rows_without_an_order_are_taken_by_primary_key_whatever_the_model_says():
    assert Task._meta.ordering == ["-due_at"]
    rows = spread(5)
    Task.objects.filter(pk=rows[0].pk).update(due_at=clock.now() + timedelta(minutes=1))
    assert declare(due=lambda self, rows, now: rows.all(), batch=2).run(limit=3).emitted == 3
    assert order_of_events() == ["task 00", "task 01", "task 02"]


@pytest.mark.parametrize(
    ("due", "order"),
    [
        (lambda rows: rows.order_by("-due_at"), "0123"),
        (lambda rows: rows.order_by("project__name", "-title"), "3120"),
        (lambda rows: rows.order_by(F("project__name").desc(nulls_last=True), "title"), "0213"),
        (lambda rows: rows.order_by("due_at").reverse(), "0123"),
        (lambda rows: rows.filter(project__task__isnull=False).order_by("due_at"), "3210"),  # rows come several times
        (lambda rows: rows.annotate(all=Count("project__task")).order_by("all", "title"), "0123"),
        (lambda rows: rows.order_by("project", "-pk").distinct("project"), "23"),
        (lambda rows: rows.annotate(at=Window(RowNumber(), order_by="-pk")).filter(at__lte=3).order_by("at"), "321"),
    ],
)
def test_any_order_is_kept(due, order):
    house, garden = Project.objects.create(name="house"), Project.objects.create(name="garden")
    for row, project in zip(spread(4), (house, garden, house, garden), strict=True):
        Task.objects.filter(pk=row.pk).update(project=project)
    expected = [f"task 0{number}" for number in order]
    assert declare(due=lambda self, rows, now: due(rows), batch=1).run().emitted == len(expected)
    assert order_of_events() == expected


def test_rows_may_be_taken_at_random():
    spread(10)
    assert declare(due=lambda self, rows, now: rows.order_by("?"), batch=3).run().emitted == 10
    assert sorted(order_of_events()) == [f"task {number:02}" for number in range(10)]


def test_rows_that_fail_at_the_front_hold_up_no_others(monkeypatch):
    """Also where they are more than the keys that are read at a time."""
    monkeypatch.setattr(sweep_run, "PAGE", 3)
    spread(20)

    def data(self, task):
        if int(task.title[-2:]) >= 8:
            raise ValueError("no luck")
        return {"title": task.title}

    swept = declare(due=soonest, data=data, batch=2).run()
    assert (swept.found, swept.emitted, swept.failed) == (20, 8, 12)
    assert order_of_events() == [f"task {number:02}" for number in reversed(range(8))]
    assert ScheduleLog.objects.filter(what="failed").count() == 12


def test_rows_that_are_given_many_times_hold_up_no_others(monkeypatch):
    monkeypatch.setattr(sweep_run, "PAGE", 2)
    Task.objects.bulk_create(Task(title="broken", due_at=NOON, project=None) for _ in range(3))
    project = Project.objects.create()
    tasks(4, project=project)
    Task.objects.filter(title="broken").update(project=project)

    def due(self, rows, now):
        return rows.filter(project__task__isnull=False).order_by("due_at")

    swept = declare(due=due, data=refuse("broken"), batch=2).run()
    assert (swept.emitted, swept.failed) == (4, 3)


def test_the_reading_of_keys_goes_on_behind_a_page(monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(sweep_run, "PAGE", 4)
    spread(10)
    with django_assert_max_num_queries(1 + 3 + 5 * 8):
        assert declare(due=soonest, batch=2).run().emitted == 10
    assert order_of_events() == [f"task {number:02}" for number in reversed(range(10))]


def test_a_row_is_found_once_in_a_run_however_short_its_window_is(monkeypatch):
    monkeypatch.setattr(sweep_run, "PAGE", 2)
    tasks(6)
    sweep = declare(again_after=timedelta(microseconds=1), batch=2)
    assert (sweep.run().emitted, Event.objects.count()) == (6, 6)


def test_an_ordered_union_is_refused():
    def due(self, rows, now):
        return rows.filter(done=False).union(rows.filter(title="x")).order_by("due_at")

    with pytest.raises(
        InvalidPlan, match=r"gave an ordered union\(\), whose order cannot be kept; join the conditions"
    ):
        declare(due=due).run()


# The schedule log


def test_every_event_has_a_line_in_the_schedule_log_with_the_id_of_its_run(due_tasks):
    tasks(3)
    swept = due_tasks.run()
    lines = ScheduleLog.objects.filter(run=swept.run)
    assert {(line.what, line.source, line.aggregate_type) for line in lines} == {("swept", "app.DueTasks", "app.task")}
    assert {line.event_id for line in lines} == set(Event.objects.values_list("id", flat=True))
    assert {line.aggregate_id for line in lines} == {str(task.pk) for task in Task.objects.all()}


def test_a_run_says_what_it_did(due_tasks, caplog):
    tasks(2)
    with caplog.at_level(logging.INFO, "duebox.sweeps"):
        swept = due_tasks.run()
        due_tasks.run()
    assert str(swept) == "app.DueTasks: 2 swept"
    started, ended, *_ = [record.message for record in caplog.records]
    assert started == f"sweep started: sweep=app.DueTasks run={swept.run}"
    assert ended.startswith(
        f"sweep ended: sweep=app.DueTasks run={swept.run} found=2 emitted=2 again=0 failed=0 seconds="
    )
    assert len(caplog.records) == 4


def test_a_run_says_what_it_did_in_fields_and_metrics(due_tasks, caplog):
    tasks(2)
    before = metrics.SWEEP_ROWS.read()
    with caplog.at_level(logging.INFO, "duebox.sweeps"):
        swept = due_tasks.run()
    started, ended = caplog.records
    assert (started.sweep, started.worker_run_id) == ("app.DueTasks", swept.run)
    assert (ended.worker_run_id, ended.found, ended.emitted, ended.failed) == (swept.run, 2, 2, 0)
    assert ended.seconds >= 0
    after = metrics.SWEEP_ROWS.read()
    for result in ("found", "emitted"):
        assert after["app.DueTasks", result] == before.get(("app.DueTasks", result), 0) + 2


# One row's failure


def test_one_row_that_fails_does_not_hurt_the_others(caplog):
    tasks(5)
    Task.objects.update(reminded_at=NOON)
    sweep = declare(data=refuse("task 2"))
    swept = sweep.run()
    assert (swept.found, swept.stamped, swept.emitted, swept.failed) == (5, 4, 4, 1)
    assert str(swept) == "app.DueTasks: 4 swept, 1 failed"
    assert titles() == ["task 0", "task 1", "task 3", "task 4"]
    failed = Task.objects.get(title="task 2")
    assert failed.reminded_at == NOON
    line = ScheduleLog.objects.get(what="failed")
    assert (line.source, line.run, line.aggregate_id) == ("app.DueTasks", swept.run, str(failed.pk))
    assert (line.note, line.event_id) == ("ValueError: no luck with task 2", None)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.message == f"row not swept: sweep=app.DueTasks about=app.task:{failed.pk}"
    assert isinstance(record.exc_info[1], ValueError)


def failing(title, times, calls=None):
    """Fails so many times for the task of this title, tried alone; a try with its batch does not count."""
    tried = [] if calls is None else calls

    def data(self, task):
        if task.title == title:
            tried.append(time.monotonic())
            if len(tried) <= times * 2:
                raise ConnectionError(f"no luck with {title}")
        return {"title": task.title}

    return data


@pytest.mark.large
def test_a_row_that_fails_is_tried_again_in_the_run_after_one_two_and_four_seconds(caplog):
    assert (Sweep.retry.delays, Sweep.retry.limit) == ((1.0, 2.0, 4.0), 3)
    tasks(5)
    calls = []
    swept = declare(data=failing("task 2", 2, calls), retry=Sweep.retry).run()
    assert (swept.found, swept.emitted, swept.failed) == (5, 5, 0)
    assert titles() == [f"task {number}" for number in range(5)]
    assert [round(later - earlier) for earlier, later in pairwise(calls)] == [0, 1, 0, 2]
    assert not ScheduleLog.objects.filter(what="failed").exists()
    assert [record.levelname for record in caplog.records if "not swept" in record.message] == ["WARNING"] * 2


def test_a_row_that_fails_every_time_is_given_up_with_one_line_and_found_by_the_next_run(caplog):
    tasks(5)
    calls = []
    sweep = declare(data=failing("task 1", 4, calls), retry=Retry(delays=(0.01, 0.02, 0.03)), batch=2)
    swept = sweep.run()
    assert (swept.found, swept.emitted, swept.failed, len(calls)) == (5, 4, 1, 8)
    assert ScheduleLog.objects.get(what="failed").note == "ConnectionError: no luck with task 1"
    levels = [record.levelname for record in caplog.records if "not swept" in record.message]
    assert levels == ["WARNING"] * 3 + ["ERROR"]
    assert (sweep.run().emitted, titles()) == (1, [f"task {number}" for number in range(5)])


@pytest.mark.parametrize("error", [Permanent("never"), InvalidEvent("this is no event")])
def test_what_no_retry_can_help_is_not_tried_again(error):
    tasks(1)
    calls = []

    def data(self, task):
        calls.append(task)
        raise error

    assert (declare(data=data, retry=Sweep.retry).run().failed, len(calls)) == (1, 2)  # with its batch, and alone


def test_rows_are_committed_before_others_are_tried_again(elsewhere):
    tasks(4)
    seen = []

    def data(self, task):
        if task.title == "task 0":
            [(count,)] = elsewhere.execute("SELECT count(*) FROM duebox_event").fetchall()
            seen.append(count)
            elsewhere.commit()
            if len(seen) < 3:
                raise ValueError("not yet")
        return {"title": task.title}

    assert declare(data=data, retry=Retry(delays=(0.01,)), batch=2).run().emitted == 4
    assert seen == [0, 0, 3]


def test_a_row_that_another_run_has_swept_meanwhile_is_not_tried_again():
    tasks(1)
    other = declare(name="other")
    calls = []

    def data(self, task):
        calls.append(task)
        raise ValueError("not here")

    sweep = declare(data=data, retry=Retry(delays=(0.01,)))
    wait = sweep_run._wait
    sweep_run._wait = lambda seconds: other.run()
    try:
        swept = sweep.run()
    finally:
        sweep_run._wait = wait
    assert (swept.found, swept.emitted, swept.failed, len(calls)) == (1, 0, 0, 2)
    assert Event.objects.count() == 1


def test_on_another_clock_the_tries_take_no_time():
    with travel(NOON):
        tasks(1)
        started = time.monotonic()
        assert declare(data=failing("task 0", 9), retry=Sweep.retry).run().failed == 1
        assert time.monotonic() - started < 6  # they would take seven seconds


def broken_query(self, task):
    if task.title == "task 1":
        Task.objects.create(due_at=None)
    return {"title": task.title}


def swallowed_error(self, task):
    try:
        return broken_query(self, task)
    except Exception:
        return {"title": task.title}


@pytest.mark.parametrize(
    "data",
    [
        broken_query,
        swallowed_error,
        lambda self, task: {"title": object() if task.title == "task 1" else task.title},
        lambda self, task: None if task.title != "task 1" else "a text",
    ],
)
def test_a_failure_of_any_kind_stays_with_its_row(data):
    tasks(3)
    swept = declare(data=data).run()
    assert (swept.emitted, swept.failed) == (2, 1)
    assert ScheduleLog.objects.filter(what="failed").count() == 1
    assert [task.title for task in Task.objects.filter(reminded_at__isnull=True)] == ["task 1"]


def test_what_data_wrote_for_a_row_that_failed_is_undone():
    tasks(2)

    def data(self, task):
        Project.objects.create(name=task.title)
        return refuse("task 1")(self, task)

    declare(data=data).run()
    assert [project.name for project in Project.objects.all()] == ["task 0"]


def test_an_error_that_cannot_be_stored_as_text_is_stored_all_the_same(caplog):
    caplog.set_level(logging.CRITICAL, "duebox.sweeps")  # half a surrogate cannot be reported by pytest either
    tasks(1)

    def data(self, task):
        raise ValueError("\x00 and \udc80")

    assert declare(data=data).run().failed == 1
    assert ScheduleLog.objects.get().note == "ValueError: \\x00 and \\udc80"


def cut(elsewhere):
    elsewhere.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    elsewhere.commit()


def test_a_broken_connection_is_no_rows_fault_and_the_batch_is_tried_again(elsewhere, caplog):
    tasks(3)
    calls = []

    def data(self, task):
        calls.append(task.title)
        if calls.count("task 1") == 1 and task.title == "task 1":
            cut(elsewhere)
            Task.objects.count()
        return {"title": task.title}

    swept = declare(data=data).run()
    assert (swept.found, swept.emitted, swept.failed) == (3, 3, 0)
    assert titles() == ["task 0", "task 1", "task 2"]
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.message.startswith(f"database error, trying again in 1 s: sweep=app.DueTasks run={swept.run} ")


def test_a_database_that_stays_away_ends_the_run_after_three_more_tries(elsewhere, caplog, monkeypatch):
    tasks(3)
    steps = []
    monkeypatch.setattr("duebox.schedules.sweep_run._wait", steps.append)

    def data(self, task):
        steps.append("tried")
        cut(elsewhere)
        Task.objects.count()

    with pytest.raises(OperationalError):
        declare(data=data).run()
    assert steps == ["tried", 1, "tried", 2, "tried", 4, "tried"]
    told = [(record.levelname, record.message.partition(":")[0]) for record in caplog.records if record.levelno > 20]
    waits = [("WARNING", f"database error, trying again in {seconds} s") for seconds in (1, 2, 4)]
    assert told == [*waits, ("ERROR", "sweep skipped")]
    assert not Event.objects.exists()
    assert not ScheduleLog.objects.exists()
    assert declare(name="again").run().emitted == 3


def test_in_a_transaction_of_the_caller_a_database_error_is_raised_at_once(elsewhere):
    tasks(1)
    tried = []

    def data(self, task):
        tried.append(task)
        cut(elsewhere)
        Task.objects.count()

    with pytest.raises(OperationalError), transaction.atomic():
        declare(data=data).run()
    assert len(tried) == 1


def test_a_run_after_the_database_came_back_does_not_need_a_second_try(elsewhere, due_tasks):
    tasks(2)
    connection.ensure_connection()
    elsewhere.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    elsewhere.commit()
    time.sleep(0.05)
    assert due_tasks.run().emitted == 2


# Rows whose handler gave up


class Reminders:
    """A handler that fails for good until it is repaired, and another one beside it."""

    def __init__(self, on, **options):
        self.broken = True
        self.reminded, self.counted = [], []
        on("task.due_soon", name="remind", **options)(self.remind)
        on("task.due_soon", name="count")(self.count)

    def remind(self, event):
        if self.broken:
            raise Permanent("the post is closed")
        self.reminded.append(event.about[1])

    def count(self, event):
        self.counted.append(event.about[1])


@pytest.fixture
def reminders(on):
    return Reminders(on)


def letters():
    return list(Delivery.objects.filter(status="dead").values_list("subscriber", flat=True))


def died(sweep, count=1, **fields):
    """Tasks that were swept, and of whose events a handler died."""
    rows = tasks(count, **fields)
    assert sweep.run().emitted == count
    assert drain(raises=False).dead == count
    return rows


def test_a_row_whose_handler_died_is_found_again_by_the_next_run(due_tasks, reminders):
    with travel(NOON) as traveller:
        [task] = died(due_tasks)
        [first] = Event.objects.all()
        traveller.by(timedelta(hours=1))
        reminders.broken = False
        assert due_tasks.run(dry_run=True).found == 1
        swept = due_tasks.run()
        assert (swept.found, swept.emitted, swept.again, swept.failed) == (1, 1, 1, 0)
        assert str(swept) == "app.DueTasks: 1 swept (1 again)"
        drain()
        assert reminders.reminded == [str(task.pk)]
        task.refresh_from_db()
        assert task.reminded_at == NOON + timedelta(hours=1)
        assert due_tasks.run().found == 0
    second = Event.objects.exclude(pk=first.pk).get()
    assert letters() == []
    [gone] = Attempt.objects.filter(event_id=first.pk, outcome="discarded")
    assert gone.note == f"sweep app.DueTasks found the row again: run {swept.run}"
    line = ScheduleLog.objects.get(run=swept.run)
    assert (line.what, line.event_id) == ("swept", second.pk)
    assert line.note == "again: a handler of the event before gave up"


def test_only_the_handler_that_died_gets_the_second_event(due_tasks, reminders):
    with travel(NOON):
        [task] = died(due_tasks, project=Project.objects.create())
        reminders.broken = False
        assert due_tasks.run().again == 1
        drain()
    assert (reminders.reminded, reminders.counted) == ([str(task.pk)], [str(task.pk)])


def test_a_row_is_found_again_with_what_it_says_by_then(due_tasks, reminders):
    [task] = died(due_tasks)
    Task.objects.filter(pk=task.pk).update(title="water them today")
    due_tasks.run()
    assert titles() == ["task 0", "water them today"]


def test_a_row_is_found_again_as_often_as_its_handler_dies(due_tasks, reminders):
    died(due_tasks)
    for _ in range(3):
        assert due_tasks.run().again == 1
        drain(raises=False)
        assert letters() == ["remind"]
    assert Event.objects.count() == 4


def test_while_its_handler_is_trying_a_row_is_not_found(due_tasks, on):
    on("task.due_soon", name="slow")(lambda event: 1 / 0)
    tasks(1)
    due_tasks.run()
    assert drain(raises=False).retried == 1
    assert due_tasks.run().found == 0


def test_a_sweep_may_leave_dead_letters_to_people(reminders):
    sweep = declare(on_dead="keep")
    died(sweep)
    assert (sweep.run(dry_run=True).found, sweep.run().found, letters()) == (0, 0, ["remind"])


def test_a_dead_letter_that_is_redriven_reminds_and_the_next_run_does_not(due_tasks, reminders):
    [task] = died(due_tasks)
    reminders.broken = False
    assert operations.retry("default", list(Delivery.objects.values_list("id", flat=True)), note="by hand").ids
    assert due_tasks.run().found == 0
    drain()
    assert (due_tasks.run().found, reminders.reminded) == (0, [str(task.pk)])


def test_a_dead_letter_whose_row_was_found_again_cannot_be_redriven(due_tasks, reminders):
    [task] = died(due_tasks)
    letter = Delivery.objects.get().id
    reminders.broken = False
    due_tasks.run()
    assert operations.retry("default", [letter], note="by hand").ids == []
    drain()
    assert reminders.reminded == [str(task.pk)]


def test_a_row_that_is_not_due_any_more_keeps_its_stamp_and_its_dead_letter(due_tasks, reminders):
    died(due_tasks)
    stamp = Task.objects.get().reminded_at
    Task.objects.update(done=True)
    assert (due_tasks.run(dry_run=True).found, due_tasks.run().found) == (0, 0)
    assert (Task.objects.get().reminded_at, letters()) == (stamp, ["remind"])


def test_a_row_whose_stamp_was_changed_since_is_not_found_again(due_tasks, reminders):
    died(due_tasks)
    Task.objects.update(reminded_at=timezone.now())
    assert (due_tasks.run().found, letters()) == (0, ["remind"])


def test_a_row_of_a_query_that_asks_for_the_stamp_itself_is_found_again(reminders):
    sweep = declare(due=lambda self, rows, now: rows.filter(reminded_at__isnull=True))
    died(sweep)
    assert sweep.run().again == 1


def test_a_row_without_a_window_is_found_again(reminders):
    sweep = declare(again_after=None)
    died(sweep)
    assert sweep.run().again == 1


def test_a_dead_letter_that_was_parked_stays(due_tasks, reminders):
    died(due_tasks)
    operations.park("default", list(Delivery.objects.values_list("id", flat=True)), note="look at it tomorrow")
    assert (due_tasks.run().found, Delivery.objects.get().status) == (0, "parked")


def test_a_dead_letter_that_holds_up_an_order_stays(due_tasks, on):
    Reminders(on, ordered=True)
    died(due_tasks)
    assert (due_tasks.run().found, letters()) == (0, ["remind"])


def test_a_dead_letter_that_left_its_order_does_not(due_tasks, on):
    Reminders(on, ordered=True, on_dead="skip")
    died(due_tasks)
    assert (due_tasks.run().again, letters()) == (1, [])


def test_a_handler_that_is_gone_keeps_its_dead_letters(due_tasks, reminders):
    died(due_tasks)
    subscribers.remove("remind")
    assert (due_tasks.run().found, letters()) == (0, ["remind"])


def test_a_handler_that_was_renamed_gets_the_second_event(due_tasks, reminders, on):
    died(due_tasks)
    subscribers.remove("remind")
    on("task.due_soon", name="send", aliases=["remind"])(reminders.remind)
    assert due_tasks.run().again == 1
    assert Delivery.objects.get().subscriber == "send"


def test_when_the_window_is_over_everybody_gets_the_event_and_the_dead_letter_goes(reminders):
    sweep = declare(due=lambda self, rows, now: rows.all())
    with travel(NOON) as traveller:
        [task] = died(sweep)
        reminders.broken = False
        traveller.by(DAY)
        assert (sweep.run().emitted, letters()) == (1, [])
        drain()
    assert (reminders.reminded, reminders.counted) == ([str(task.pk)], [str(task.pk)] * 2)


def test_a_limit_counts_rows_that_are_found_again(due_tasks, reminders):
    died(due_tasks, 3)
    tasks(3)
    assert [(swept.found, swept.again) for swept in (due_tasks.run(limit=2), due_tasks.run(limit=2))] == [
        (2, 2),
        (2, 1),
    ]
    assert due_tasks.run(dry_run=True).found == 2


def test_a_row_that_fails_when_it_is_found_again_is_tried_again_in_the_run_and_keeps_its_letter(reminders):
    calls = []

    def data(self, task):
        calls.append(task.title)
        if 1 < len(calls) <= broken:
            raise ValueError("no luck")
        return {"title": task.title}

    sweep = declare(data=data, retry=Retry(delays=(0.01,)))
    broken = 9
    died(sweep)
    stamp = Task.objects.get().reminded_at
    swept = sweep.run()
    assert (swept.found, swept.emitted, swept.failed, len(calls)) == (1, 0, 1, 1 + 4)
    assert (Task.objects.get().reminded_at, letters()) == (stamp, ["remind"])
    broken = 7
    assert (sweep.run().again, len(calls), letters()) == (1, 1 + 4 + 3, [])


def test_what_others_put_into_metadata_does_no_harm(due_tasks, reminders):
    for stamped_at in ("soon", 7, None):
        metadata = {"sweep": "app.DueTasks", "stamped_at": stamped_at}
        duebox.emit("task.due_soon", {"title": ""}, about=("task", "x"), metadata=metadata)
    drain(raises=False)
    assert (due_tasks.run().found, letters()) == (0, ["remind"] * 3)


@pytest.mark.django_db(transaction=True)
def test_runs_and_a_redrive_at_once_remind_nobody_twice(reminders, on):
    """Whoever has locked the dead letter decides."""
    sweep = declare(batch=7)
    many = 120
    died(sweep, many)
    reminders.broken = False
    together = threading.Barrier(3)
    redriven, again = [], []

    def work(action):
        try:
            together.wait()
            action()
        finally:
            close_connections()

    def redrive_some():
        ids = list(Delivery.objects.order_by("-id").values_list("id", flat=True))
        for start in range(0, many, 9):
            redriven.extend(operations.retry("default", ids[start : start + 9], note="by hand").ids)

    threads = [threading.Thread(target=work, args=[action]) for action in (
        redrive_some, lambda: again.append(sweep.run().again), lambda: again.append(sweep.run().again),
    )]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sweep.run()
    drain()
    assert letters() == []
    assert sorted(reminders.reminded, key=int) == [str(task.pk) for task in Task.objects.order_by("pk")]
    assert sum(again) + len(redriven) == many


# Several at once


def test_a_row_that_somebody_else_holds_is_passed_over(elsewhere, due_tasks):
    first, *_ = tasks(3)
    elsewhere.execute("SELECT FROM app_task WHERE id = %s FOR UPDATE", [first.pk])
    assert due_tasks.run().emitted == 2
    elsewhere.rollback()
    assert due_tasks.run().emitted == 1


def test_a_row_that_a_new_row_refers_to_is_not_passed_over(elsewhere, due_tasks):
    [task] = tasks(1)
    elsewhere.execute("SELECT FROM app_task WHERE id = %s FOR KEY SHARE", [task.pk])  # as a foreign key does
    assert due_tasks.run().emitted == 1


@pytest.mark.django_db(transaction=True)
def test_three_that_sweep_at_once_share_the_work_and_remind_nobody_twice():
    tasks(600)
    sweep = declare(batch=20, data=lambda self, task: time.sleep(0.0005) or {"title": task.title})
    together = threading.Barrier(3)
    swept = []

    def work():
        try:
            together.wait()
            swept.append(sweep.run())
        finally:
            close_connections()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.emitted for each in swept) == 600
    assert min(each.emitted for each in swept) > 0
    assert Event.objects.values("aggregate_id").distinct().count() == Event.objects.count() == 600
    assert {line.run for line in ScheduleLog.objects.all()} == {each.run for each in swept}


# By the clock


def test_a_sweep_is_scheduled_hourly_and_run_by_whoever_delivers(due_tasks):
    with travel(NOON + timedelta(minutes=17)) as traveller:
        ensure_schedules("default")
        [row] = Schedule.objects.all()
        assert (row.key, row.due_at) == ("duebox:sweep:app.DueTasks", NOON + timedelta(hours=1))
        tasks(2, due_at=NOON + timedelta(hours=30))
        traveller.run(timedelta(hours=20))
        assert titles() == ["task 0", "task 1"]
        # Due within 24 hours from 18:00 on, and 18:00 is a full hour.
        assert {task.reminded_at for task in Task.objects.all()} == {NOON + timedelta(hours=6)}


def test_the_events_of_a_scheduled_run_know_their_cause_and_have_each_a_story_of_its_own(due_tasks):
    with travel(NOON - timedelta(minutes=1)) as traveller:
        ensure_schedules("default")
        tasks(2)
        traveller.run(timedelta(minutes=2))
    cause = Event.objects.get(type="duebox.sweep.due")
    events = Event.objects.filter(type="task.due_soon")
    assert [event.causation_id for event in events] == [cause.id, cause.id]
    assert [event.correlation_id for event in events] == [str(event.id) for event in events]


def test_after_a_downtime_a_sweep_runs_once():
    sweep = declare(again_after=timedelta(minutes=1))
    with travel(NOON) as traveller:
        ensure_schedules("default")
        tasks(1, due_at=NOON + timedelta(hours=90))
        traveller.to(NOON + timedelta(hours=72, minutes=30))
        drain()
    assert Event.objects.filter(type="duebox.sweep.due").count() == 1
    assert Event.objects.filter(type=sweep.event).count() == 1


def test_scheduling_again_changes_nothing(due_tasks):
    ensure_schedules("default")
    before = Schedule.objects.values().get()
    ensure_schedules("default")
    assert Schedule.objects.values().get() == before


def test_another_rhythm_replaces_the_schedule(due_tasks):
    with travel(NOON):
        ensure_schedules("default")
        declare_again = declare(every=when.daily("18:30"), again_after=timedelta(hours=20))
        assert declare_again.name == due_tasks.name
        ensure_schedules("default")
        assert Schedule.objects.get().due_at.astimezone(UTC).minute == 30


def test_a_sweep_without_a_rhythm_is_not_scheduled_any_more(due_tasks):
    ensure_schedules("default")
    declare(every=None)
    ensure_schedules("default")
    assert Schedule.objects.get().status == "cancelled"
    assert declare(every=None).run().found == 0


def test_a_rule_with_nothing_left_to_come_does_not_keep_the_others_from_being_scheduled():
    with travel(NOON) as traveller:
        declare(name="once", every=when.once(NOON + timedelta(hours=1)))
        ensure_schedules("default")
        traveller.run(timedelta(hours=2))
        declare(name="hourly")
        ensure_schedules("default")
    assert {row.key.rpartition(":")[2]: row.status for row in Schedule.objects.all()} == {
        "once": "completed",
        "hourly": "scheduled",
    }


def test_the_schedule_of_a_sweep_that_is_unknown_here_is_left_alone(due_tasks):
    ensure_schedules("default")
    sweeps.remove("app.DueTasks")
    ensure_schedules("default")
    assert Schedule.objects.get().status == "scheduled"


def test_a_sweep_that_somebody_paused_stays_paused(due_tasks):
    ensure_schedules("default")
    duebox.pause("duebox:sweep:app.DueTasks")
    ensure_schedules("default")
    assert Schedule.objects.get().status == "paused"


def test_a_sweep_with_a_zone_of_its_own_keeps_it():
    declare(every=when.Timetable(rule=when.daily("09:00"), zone="Asia/Tokyo"), again_after=timedelta(hours=20))
    ensure_schedules("default")
    assert Schedule.objects.get().zone == "Asia/Tokyo"


def test_a_run_of_an_unknown_sweep_is_tried_again_and_says_what_to_do():
    duebox.emit(Own("duebox.sweep.due"), {"sweep": "gone.Sweep"})
    drained = drain(raises=False)
    assert drained.retried == 1
    assert str(drained.errors[0]) == (
        "No sweep is named 'gone.Sweep' here; declare it, or end its schedule with "
        "duebox.cancel('duebox:sweep:gone.Sweep')."
    )


@pytest.mark.django_db(databases=["default", "other"])
def test_a_scheduled_run_stays_in_the_database_that_is_served(due_tasks):
    Task.objects.using("other").create(due_at=clock.now() + timedelta(hours=1))
    duebox.emit(Own("duebox.sweep.due"), {"sweep": "app.DueTasks"}, using="other")
    drain(using="other")
    assert Event.objects.using("other").filter(type="task.due_soon").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_a_sweep(hire, due_tasks):
    tasks(30)
    hire()
    duebox.emit(Own("duebox.sweep.due"), {"sweep": "app.DueTasks"})
    eventually(lambda: Event.objects.filter(type="task.due_soon").count() == 30)


# From other schedulers


@pytest.mark.django_db(transaction=True)
def test_apscheduler_runs_a_sweep(due_tasks):
    background = pytest.importorskip("apscheduler.schedulers.background")
    tasks(3)
    scheduler = background.BackgroundScheduler()
    scheduler.add_job(lambda: (due_tasks.run(), close_connections()), "interval", seconds=0.1)
    scheduler.add_job(due_tasks.run, "cron", minute=0)
    scheduler.start()
    try:
        eventually(lambda: Event.objects.count() == 3)
        time.sleep(0.3)
    finally:
        scheduler.shutdown()
    assert Event.objects.count() == 3


def test_celery_runs_a_sweep(due_tasks):
    celery = pytest.importorskip("celery")
    app = celery.Celery("shop", set_as_current=False)
    app.conf.task_always_eager = True

    @app.task
    def remind():
        return due_tasks.run().as_dict()

    tasks(3)
    assert remind.delay().get()["emitted"] == 3
    assert remind.delay().get()["emitted"] == 0


# Mistakes


def test_a_base_without_a_model_is_no_sweep_yet():
    class Reminders(Sweep):
        event = "task.due_soon"
        stamp = "reminded_at"

        def due(self, rows, now):
            return rows.all()

    class TaskReminders(Reminders):
        model = Task

    class ErrandReminders(TaskReminders):
        model = Errand

    assert list(sweeps.by_name()) == ["app.TaskReminders", "app.ErrandReminders"]
    with pytest.raises(InvalidPlan, match="Reminders is not a declared sweep; give it a model"):
        Reminders.run()


def test_a_name_may_be_given():
    assert declare(name="tasks:remind").name == "tasks:remind"
    assert sweeps.by_name()["tasks:remind"].run().sweep == "tasks:remind"


def test_a_name_that_is_taken_is_refused_with_both_places(due_tasks):
    with pytest.raises(InvalidPlan, match=r"'app.DueTasks' is taken by tests.*DueTasks; give .*Other another one with"):
        type("Other", (due_tasks,), {"name": "app.DueTasks"})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"model": "app.Task"}, r"model of DueTasks is 'app.Task'; it must be a model class with a table"),
        ({"event": ""}, r"app.DueTasks emits nothing; declare event = "),
        ({"event": 7}, r"app.DueTasks emits nothing; declare event = "),
        ({"stamp": "remembered_at"}, r"is 'remembered_at', which Task does not have; name a DateTimeField"),
        ({"stamp": ""}, r"is '', which Task does not have"),
        ({"stamp": "due_at"}, r"app.Task.due_at, a non-null DateTimeField; it must be a DateTimeField\(null=True\)"),
        ({"stamp": "project"}, r"app.Task.project, a ForeignKey; it must be a DateTimeField"),
        ({"stamp": "changed_at"}, r"app.Task.changed_at, which Django sets at each save; take another field"),
        ({"name": "a b"}, r"Sweep name 'a b' may hold up to 200 letters"),
        ({"due": Sweep.due}, r"app.DueTasks does not say which rows are due; define due\(self, rows, now\)"),
        ({"again_after": 24}, r"again_after of sweep app.DueTasks is 24; give a timedelta above 0, or None"),
        ({"again_after": timedelta(0)}, r"give a timedelta above 0"),
        ({"batch": 0}, r"batch of sweep app.DueTasks is 0; it must be a whole number above 0"),
        ({"limit": "10"}, r"limit of sweep app.DueTasks is '10'; it must be a whole number"),
        (
            {"retry": 3},
            r"retry of sweep app.DueTasks is 3; give a duebox.Retry, such as Retry\(delays=\(1, 2, 4\)\), or",
        ),
        ({"on_dead": "again!"}, r"on_dead of sweep app.DueTasks is 'again!'; it must be 'again' or 'keep'"),
        ({"every": "0 * * * *"}, r"every of sweep app.DueTasks is '0 \* \* \* \*'; give a rule such as when.cron"),
    ],
)
def test_a_mistake_in_a_declaration_is_refused_with_the_repair(attributes, message):
    with pytest.raises(InvalidPlan, match=message):
        declare(**attributes)
    assert sweeps.by_name() == {}


@pytest.mark.parametrize(
    ("every", "again_after"),
    [(when.daily("09:00"), DAY), (when.daily("09:00"), timedelta(hours=23)), (when.cron("0 * * * *"), DAY / 24)],
)
def test_a_window_as_long_as_the_way_to_the_next_run_is_refused(every, again_after):
    """The run after next would find what the next one missed by a millisecond."""
    with pytest.raises(InvalidPlan, match=r"so a run that comes a moment early would pass it over; set again_after to"):
        declare(every=every, again_after=again_after)


@pytest.mark.parametrize(
    ("every", "again_after"),
    [(when.daily("09:00"), None), (when.daily("09:00"), timedelta(hours=20)), (when.once(NOON), DAY), (None, DAY)],
)
def test_other_windows_are_fine(every, again_after):
    assert declare(every=every, again_after=again_after)


def test_a_model_with_a_key_of_several_fields_is_refused():
    class Cell(models.Model):
        pk = models.CompositePrimaryKey("row", "column")
        row = models.IntegerField()
        column = models.IntegerField()
        told_at = models.DateTimeField(null=True)

        class Meta:
            app_label = "nowhere"

        def __str__(self):
            return f"{self.row}:{self.column}"

    with pytest.raises(InvalidPlan, match="Cell has a primary key of several fields; a sweep needs one of one field"):
        declare(model=Cell, stamp="told_at")


@pytest.mark.parametrize(
    ("due", "message"),
    [
        (lambda self, rows, now: list(rows), "gave a list; return the queryset it got, filtered"),
        (lambda self, rows, now: Project.objects.all(), "gave a queryset of Project; return the queryset it got"),
        (lambda self, rows, now: rows[:10], "gave a slice of a queryset; leave that to batch and limit"),
        (lambda self, rows, now: rows.values("pk"), r"gave values\(\) of rows; return the rows themselves"),
    ],
)
def test_due_that_gives_something_else_is_refused(due, message):
    with pytest.raises(InvalidPlan, match=rf"due\(\) of app.DueTasks {message}"):
        declare(due=due).run()


def test_a_sweep_that_was_forgotten_does_not_run(due_tasks):
    sweeps.remove("app.DueTasks")
    with pytest.raises(InvalidPlan, match="DueTasks is not a declared sweep"):
        due_tasks.run()


def test_connections_are_left_as_they_were(due_tasks):
    assert connections["default"].in_atomic_block
    due_tasks.run()
    assert connections["default"].is_usable()


def test_a_misspelt_event_is_a_system_check_and_no_import_error_and_no_row_is_swept():
    sweep = declare(event="TaskDue")
    tasks(2)
    [found] = check_event_spelling(None)
    assert (found.id, found.msg) == (
        "duebox.E044",
        "Sweep 'app.DueTasks' emits 'TaskDue', which is not lower snake case with a dot.",
    )
    done = sweep.run()
    assert (done.emitted, done.failed) == (0, 2)
    assert Task.objects.filter(reminded_at=None).count() == 2
    assert not Event.objects.filter(type="TaskDue").exists()
