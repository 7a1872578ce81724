"""Rows whose time has come get one event each, once per window, whoever looks and however many do."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection, connections, models, transaction
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

import duebox
from duebox import clock, sweeps, when
from duebox.exceptions import InvalidPlan
from duebox.models import Event, Schedule, Trail
from duebox.promise import Own
from duebox.sweeps import Sweep, ensure_schedules
from duebox.testing import drain, travel
from duebox.worker.tidy import close_connections
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
    """The sweep of the documentation, changed here and there."""

    def due(self, tasks, now):
        return tasks.filter(done=False, due_at__gt=now, due_at__lte=now + DAY)

    given = {"model": Task, "event": "task.due_soon", "stamp": "reminded_at", "due": due}
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
    assert (event.aggregate_type, event.aggregate_id) == ("task", str(task.pk))
    assert event.metadata == {"sweep": "app.DueTasks", "run": swept.run}
    assert event.idempotency_key == f"app.DueTasks:{task.pk}/{swept.run}"
    task.refresh_from_db()
    assert before <= task.reminded_at <= timezone.now()


def test_tasks_that_are_not_due_are_left_alone(due_tasks):
    tasks(1, done=True)
    tasks(1, due_at=clock.now() + timedelta(hours=25))
    tasks(1, due_at=clock.now() - timedelta(hours=1))
    assert due_tasks.run().found == 0
    assert not Task.objects.filter(reminded_at__isnull=False).exists()
    assert not Event.objects.exists()
    assert not Trail.objects.exists()


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
    # Two savepoints, and between them: stamp, load, emit, trail.
    with django_assert_num_queries(8):
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


def test_a_run_takes_its_rows_in_batches_by_key(due_tasks, django_assert_max_num_queries):
    tasks(1200)
    # Three batches of eight queries: two for the transaction, two for the savepoint, stamp, load, emit, trail.
    with django_assert_max_num_queries(24):
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
    assert Event.objects.using("other").count() == Trail.objects.using("other").count() == 1
    assert not Event.objects.exists()


def test_what_is_rolled_back_around_a_run_never_happened(due_tasks):
    tasks(2)
    with transaction.atomic():
        assert due_tasks.run().emitted == 2
        transaction.set_rollback(True)
    assert not Event.objects.exists()
    assert due_tasks.run().emitted == 2


# The trail


def test_every_event_has_a_line_in_the_trail_with_the_id_of_its_run(due_tasks):
    tasks(3)
    swept = due_tasks.run()
    lines = Trail.objects.filter(run=swept.run)
    assert {(line.what, line.source, line.aggregate_type) for line in lines} == {("swept", "app.DueTasks", "task")}
    assert {line.event_id for line in lines} == set(Event.objects.values_list("id", flat=True))
    assert {line.aggregate_id for line in lines} == {str(task.pk) for task in Task.objects.all()}


def test_a_run_says_what_it_did(due_tasks, caplog):
    tasks(2)
    with caplog.at_level(logging.INFO, "duebox.sweeps"):
        swept = due_tasks.run()
        due_tasks.run()
    assert str(swept) == "app.DueTasks: 2 swept"
    assert [record.message for record in caplog.records] == [
        f"swept: sweep=app.DueTasks run={swept.run} rows=2 failed=0"
    ]


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
    line = Trail.objects.get(what="failed")
    assert (line.source, line.run, line.aggregate_id) == ("app.DueTasks", swept.run, str(failed.pk))
    assert (line.note, line.event_id) == ("ValueError: no luck with task 2", None)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.message == f"row not swept: sweep=app.DueTasks about=task:{failed.pk}"
    assert isinstance(record.exc_info[1], ValueError)


def test_a_row_that_failed_is_tried_once_in_a_run_and_again_by_the_next():
    tasks(5)
    calls = []

    def data(self, task):
        calls.append(task.title)
        return refuse("task 1" if len(calls) < 20 else "nobody")(self, task)

    sweep = declare(data=data, batch=2)
    assert (sweep.run().failed, calls.count("task 1")) == (1, 2)  # once with its batch, once alone
    calls.extend([""] * 20)
    assert sweep.run().emitted == 1
    assert titles() == [f"task {number}" for number in range(5)]


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
    assert Trail.objects.filter(what="failed").count() == 1
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
    assert Trail.objects.get().note == "ValueError: \\x00 and \\udc80"


def test_a_broken_connection_is_no_rows_fault_and_undoes_the_batch(elsewhere, caplog):
    tasks(3)

    def data(self, task):
        if task.title == "task 1":
            elsewhere.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
            elsewhere.commit()
            Task.objects.count()
        return {"title": task.title}

    with pytest.raises(OperationalError):
        declare(data=data).run()
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == []
    assert not Event.objects.exists()
    assert declare(name="again").run().emitted == 3


def test_a_run_after_the_database_came_back_does_not_need_a_second_try(elsewhere, due_tasks):
    tasks(2)
    connection.ensure_connection()
    elsewhere.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    elsewhere.commit()
    time.sleep(0.05)
    assert due_tasks.run().emitted == 2


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
    assert {line.run for line in Trail.objects.all()} == {each.run for each in swept}


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
        ({"event": "Task Due"}, r"event of sweep app.DueTasks: Event type 'Task Due' is not a name; use lower snake"),
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
