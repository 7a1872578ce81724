"""Django says what a task backend has to do; tests/tasks of Django hold its own backends to the same."""

from __future__ import annotations

import dataclasses
import logging
import pickle
import re
from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils import timezone

import duebox
from duebox.contracts.enforce import Own
from duebox.destinations.django_tasks import DjangoTask
from duebox.models import Attempt, Delivery, Event, TaskRun
from duebox.tasks.backend import DueboxBackend
from duebox.tasks.compat import (
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from duebox.testing import drain, travel
from tests.app import tasks as ours
from tests.destinations.conformance import a_fact
from tests.support import eventually, undone

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _backends(settings):
    backend = "duebox.tasks.backend.DueboxBackend"
    retry = {"limit": 2, "first": 60, "jitter": 0}
    settings.TASKS = {
        "default": {"BACKEND": backend, "QUEUES": ["default", "mail"]},
        "stubborn": {"BACKEND": backend, "OPTIONS": {"retry": retry}},
        "elsewhere": {"BACKEND": backend, "OPTIONS": {"database": "other"}},
        "anywhere": {"BACKEND": backend, "QUEUES": []},
    }
    ours.ran.clear()


@pytest.fixture
def told():
    """The signals of Django, in order: name, sender, status."""
    heard = []

    def listen(name):
        def note(*, sender, task_result, **kwargs):
            heard.append((name, sender, str(task_result.status)))

        return note

    listeners = {name: listen(name) for name in ("enqueued", "started", "finished")}
    signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    for name, signal in signals.items():
        signal.connect(listeners[name])
    yield heard
    for name, signal in signals.items():
        signal.disconnect(listeners[name])


def run():
    return drain(raises=False)


def test_what_it_can_do_is_said():
    backend = task_backends["default"]
    assert type(backend) is DueboxBackend
    assert (backend.alias, backend.options) == ("default", {})
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert not backend.supports_priority
    assert list(backend.check()) == []


def test_an_enqueued_task_is_ready():
    before = timezone.now()
    result = ours.note.enqueue(1, two=[3])
    assert result.status == TaskResultStatus.READY
    assert not result.is_finished
    assert (result.args, result.kwargs, result.attempts, result.errors) == ([1], {"two": [3]}, 0, [])
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    slack = timedelta(seconds=1)  # the time is that of the database
    assert before - slack <= result.enqueued_at <= timezone.now() + slack
    assert result.task == ours.note
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    assert ours.ran == []


def test_a_worker_runs_it_and_the_result_says_so():
    result = ours.note.enqueue(1, two=3)
    run()
    assert ours.ran == [[1, ("two", 3)]]
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.is_finished
    assert result.return_value is None
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert result.attempts == 1
    assert run().delivered == 0


@pytest.mark.parametrize(
    ("task", "value"), [(ours.answer, 42), (ours.a_tuple, {"pair": [1, "two"]}), (ours.note_async, "done")]
)
def test_what_it_returns_is_kept_as_json(task, value):
    result = task.enqueue()
    run()
    result.refresh()
    assert result.return_value == value


def test_it_is_committed_with_the_transaction_or_not_at_all():
    with undone():
        lost = ours.note.enqueue("lost")
    ours.note.enqueue("kept")
    run()
    assert ours.ran == [["kept"]]
    with pytest.raises(TaskResultDoesNotExist):
        ours.note.get_result(lost.id)


def test_the_same_result_is_found_again():
    result = ours.note.using(queue_name="mail", run_after=timezone.now() + timedelta(hours=1)).enqueue(1, two=3)
    again = ours.note.get_result(result.id)
    assert again == result
    before = dataclasses.asdict(result)
    result.refresh()
    assert dataclasses.asdict(result) == before


def test_async_code_does_the_same():
    async def ask():
        result = await ours.note_async.aenqueue(7)
        again = await ours.note_async.aget_result(result.id)
        await again.arefresh()
        with pytest.raises(TaskResultDoesNotExist):
            await ours.note_async.aget_result("123")
        return result, again

    result, again = async_to_sync(ask)()
    assert again == result
    run()
    assert ours.ran == [[7]]


@pytest.mark.parametrize("unknown", ["123", "01a1e2f1-d786-7e67-9483-a5a72d312a4c", "", None])
def test_a_result_that_does_not_exist(unknown):
    with pytest.raises(TaskResultDoesNotExist):
        ours.note.get_result(unknown)


def test_another_event_is_no_result(emit):
    with pytest.raises(TaskResultDoesNotExist):
        ours.note.get_result(str(emit("order.paid").id))


def test_a_result_of_another_task_is_not_given_out():
    result = ours.note.enqueue()
    with pytest.raises(Exception, match="does not match"):
        ours.answer.get_result(result.id)


def test_a_task_that_fails_has_failed_and_says_why():
    result = ours.fail.enqueue("bad")
    run()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.is_finished
    [error] = result.errors
    assert error.exception_class is ValueError
    assert "It was 'bad'" in error.traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    assert ours.ran == ["bad"]


@pytest.mark.parametrize(
    ("task", "error"), [(ours.leave, SystemExit), (ours.unspeakable, TypeError), (ours.a_nul, ValueError)]
)
def test_every_other_end_is_a_failure_too(task, error):
    result = task.enqueue()
    run()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is error


@pytest.mark.django_db(transaction=True)
def test_a_task_that_failed_is_a_dead_letter_and_can_be_driven_again():
    result = ours.fail.enqueue()
    drained = run()
    assert drained.dead == 1
    assert "tests.app.tasks.fail failed: ValueError" in str(drained.errors[0])
    assert Delivery.objects.dead().get().subscriber == "duebox.tasks"
    assert "It was 'no'" in Attempt.objects.get(outcome="dead").note
    result.refresh()
    assert result.status == TaskResultStatus.FAILED


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_tasks(hire):
    hire(threads=1)
    with transaction.atomic():
        results = [ours.who_am_i.enqueue("me"), ours.note_async.enqueue(1), ours.fail.enqueue()]
    for result in results:
        eventually(lambda result=result: result.refresh() or result.is_finished)
    assert [str(result.status) for result in results] == ["SUCCESSFUL", "SUCCESSFUL", "FAILED"]


def test_with_retry_it_is_tried_again_and_is_ready_in_between():
    with travel(datetime.fromisoformat("2026-03-01T00:00+00:00")) as trip:
        result = ours.second_time.using(backend="stubborn").enqueue()
        run()
        result.refresh()
        assert result.status == TaskResultStatus.READY
        assert result.errors[0].exception_class is ConnectionError
        assert result.attempts == 1
        first = result.started_at
        trip.by(timedelta(minutes=1))
        run()
        result.refresh()
        assert result.return_value == 2
        assert result.attempts == 2
        assert len(result.errors) == 1
        assert result.started_at == first < result.last_attempted_at
    assert ours.ran == [1, 2]


def test_the_retries_end():
    with travel(datetime.fromisoformat("2026-03-01T00:00+00:00")) as trip:
        result = ours.fail.using(backend="stubborn").enqueue()
        for _ in range(5):
            run()
            trip.by(timedelta(hours=1))
        result.refresh()
        assert (str(result.status), result.attempts, len(result.errors)) == ("FAILED", 3, 3)
        hopeless = ours.give_up.using(backend="stubborn").enqueue()
        run()
        hopeless.refresh()
        assert (str(hopeless.status), hopeless.attempts) == ("FAILED", 1)


def test_a_start_that_was_cut_short_is_no_try():
    result = ours.fail.using(backend="stubborn").enqueue()
    now = timezone.now()
    TaskRun.objects.create(
        event_id=result.id, status="RUNNING", started_at=now, last_attempted_at=now, errors=[], worker_ids=["w:1"] * 3
    )
    drain(raises=False)
    assert TaskRun.objects.get().status == "READY"


def test_it_runs_after_the_moment_it_was_asked_for():
    with travel(datetime.fromisoformat("2026-03-01T00:00+00:00")) as trip:
        later = timezone.now().replace(year=2026, month=3, day=1, hour=2, minute=0, second=0, microsecond=0)
        ours.note.using(run_after=later).enqueue("later")
        ours.note.using(run_after=later - timedelta(days=1)).enqueue("late already")
        run()
        assert ours.ran == [["late already"]]
        trip.by(timedelta(hours=2))
        run()
        assert ours.ran == [["late already"], ["later"]]


def test_a_task_may_know_its_context():
    result = ours.who_am_i.enqueue("word")
    run()
    result.refresh()
    assert result.return_value == [result.id, 1, "RUNNING", "word"]


def test_the_signals_of_django_are_sent(told):
    ours.answer.enqueue()
    ours.fail.enqueue()
    run()
    words = [(name, status) for name, _, status in told]
    assert words == [
        ("enqueued", "READY"), ("enqueued", "READY"),
        ("started", "RUNNING"), ("finished", "SUCCESSFUL"),
        ("started", "RUNNING"), ("finished", "FAILED"),
    ]  # fmt: skip
    assert {sender for _, sender, _ in told} == {DueboxBackend}


def test_a_listener_that_fails_changes_nothing(caplog):
    def listen(**kwargs):
        raise RuntimeError("a listener")

    task_finished.connect(listen)
    try:
        result = ours.answer.enqueue()
        run()
    finally:
        task_finished.disconnect(listen)
    result.refresh()
    assert result.return_value == 42
    assert "a listener" in caplog.text


def test_failures_are_logged_as_django_does(caplog):
    library = type(ours.fail).__module__.rpartition(".")[0]
    with caplog.at_level(logging.INFO, logger=library):
        ours.fail.enqueue()
        run()
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


def test_what_cannot_be_enqueued_is_refused():
    for using in ({"queue_name": "unknown"}, {"priority": 1}, {"run_after": datetime(2026, 3, 1)}):
        with pytest.raises(InvalidTask):
            ours.note.using(**using)
    assert ours.note.using(backend="anywhere", queue_name="unknown").queue_name == "unknown"
    with pytest.raises(TypeError, match="Unsupported type"):
        ours.note.enqueue(timezone.now())
    assert not Event.objects.exists()


def test_a_task_is_validated_again_when_it_is_enqueued(settings):
    mail = ours.note.using(queue_name="mail")
    settings.TASKS = {"default": {"BACKEND": "duebox.tasks.backend.DueboxBackend", "QUEUES": ["other"]}}
    with pytest.raises(InvalidTask, match="mail"):
        mail.enqueue()


def test_a_result_can_be_pickled():
    if not hasattr(Task, "_reconstruct"):
        return  # the package for older versions cannot
    result = ours.note.enqueue()
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.django_db(databases=["default", "other"])
def test_a_backend_may_have_a_database_of_its_own():
    result = ours.note.using(backend="elsewhere").enqueue("there")
    assert not Event.objects.exists()
    drain(using="other")
    assert ours.ran == [["there"]]
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert TaskRun.objects.using("other").count() == 1


def test_nobody_else_receives_it(on):
    seen = []

    @on("*", name="everything")
    def handle(event):
        seen.append(event.type)

    ours.note.enqueue()
    run()
    assert seen == []


def test_it_belongs_to_the_story_of_the_event_whose_handler_enqueued_it(on, emit):
    @on("order.paid", name="enqueues")
    def handle(event):
        ours.note.enqueue()

    fact = emit("order.paid")
    run()
    stored = Event.objects.get(type="duebox.task")
    assert (stored.correlation_id, stored.causation_id) == (fact.correlation_id, fact.id)
    assert ours.ran == [[]]


def test_what_a_task_emits_belongs_to_its_story(on):
    result = ours.emits.enqueue()
    run()
    assert str(Event.objects.get(type="order.paid").causation_id) == result.id


def test_a_task_that_has_succeeded_is_not_run_again():
    """The worker was lost after the result was written and before the delivery was settled."""
    result = ours.note.enqueue()
    TaskRun.objects.create(
        event_id=result.id, status="SUCCESSFUL", started_at=timezone.now(), last_attempted_at=timezone.now()
    )
    assert run().delivered == 1
    assert ours.ran == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("name", "kind"), [("no_task", duebox.Permanent), ("gone", ImportError)])
def test_a_path_that_is_no_task_is_never_called(emit, name, kind):
    said = {"args": [], "kwargs": {}, "backend": "default", "queue": "default", "run_after": None}
    forged = emit(Own("duebox.task"), {"task": f"tests.app.tasks.{name}", **said})
    [error] = run().errors
    assert isinstance(error, kind)
    assert ours.ran == []
    assert TaskRun.objects.get(event_id=forged.id).status == "FAILED"


def test_a_backend_that_was_replaced_does_not_run_what_it_did_not_get(settings):
    result = ours.note.enqueue()
    dummy = f"{Task.__module__.rpartition('.')[0]}.backends.dummy.DummyBackend"
    settings.TASKS = {"default": {"BACKEND": dummy}}
    [error] = run().errors
    assert "not a Duebox backend any more" in str(error)
    assert ours.ran == []
    assert result.id


def test_one_round_trip_to_enqueue(django_assert_num_queries):
    with transaction.atomic(), django_assert_num_queries(1):
        ours.note.enqueue(1)
    assert connections["default"].vendor == "postgresql"


class TestOptions:
    """What TASKS says about a backend is read when it is made, and refused before a task depends on it."""

    def backend(self, settings, options):
        settings.TASKS = {"default": {"BACKEND": "duebox.tasks.backend.DueboxBackend", "OPTIONS": options}}
        return task_backends["default"]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"rety": {"limit": 1}}, "OPTIONS has 'rety', which is not known; did you mean 'retry'?"),
            ({"database": "nope"}, "OPTIONS['database'] is 'nope', which DATABASES does not have; use one of default"),
            ({"database": ["default"]}, "OPTIONS['database'] is ['default'], which DATABASES does not have"),
            ({"retry": {"limt": 1}}, "OPTIONS['retry'] has 'limt', which is not known; did you mean 'limit'?"),
            ({"retry": {"limit": "3"}}, "OPTIONS['retry']['limit'] is '3'; it must be a whole number."),
            ({"retry": {"jitter": 2}}, "OPTIONS['retry'] is invalid: "),
            ({"retry": 3}, "OPTIONS['retry'] is 3; it must be a dict, such as {'limit': 5, 'first': 10.0}."),
            (["retry"], "OPTIONS is a list; it must be a dict."),
        ],
    )
    def test_a_mistake_is_said_by_the_check_and_stops_what_is_enqueued(self, settings, options, words):
        backend = self.backend(settings, options)
        [found] = backend.check()
        assert found.msg.startswith(f"TASKS['default']: {words}")
        assert found.is_serious()
        with pytest.raises(ImproperlyConfigured, match=re.escape(words)):
            ours.note.enqueue()
        assert not Event.objects.exists()

    def test_a_destination_that_enqueues_there_is_not_to_blame(self, settings):
        self.backend(settings, {"retry": {"limt": 1}})
        [result] = DjangoTask("tasks", task="tests.app.tasks.note").deliver([a_fact()])
        assert str(result).startswith("TASKS['default']: OPTIONS['retry'] has 'limt'")

    def test_all_that_can_be_said_is_read(self, settings):
        retry = {"delays": [1, 2], "permanent": (KeyError,)}
        backend = self.backend(settings, {"database": "other", "retry": retry})
        assert list(backend.check()) == []
        assert (backend.using, backend.retry.limit, backend.retry.permanent) == ("other", 2, (KeyError,))

    def test_without_a_word_there_is_no_retry(self, settings):
        assert self.backend(settings, {}).retry.limit == 0
        assert self.backend(settings, {"retry": {"first": 5}}).retry.limit == 0
