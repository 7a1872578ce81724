"""Duebox run by Celery: eagerly in this process, and by real workers and a real beat."""

from __future__ import annotations

import math
import signal
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import psutil
import pytest
from celery import Celery, current_app
from celery.exceptions import SoftTimeLimitExceeded
from django.core.checks import run_checks
from django.db import transaction
from django.test import TestCase

import duebox
from duebox.destinations.celery import remember_app
from duebox.integrations import celery as door
from duebox.integrations import celery_wakeup
from duebox.integrations.celery_beat import beat_schedule
from duebox.models import Attempt, AuditEntry, Delivery, Worker
from duebox.testing import travel
from tests.app.models import Effect
from tests.celery_project import app
from tests.celery_stage import BROKERS, CeleryStage
from tests.support import eventually, undone

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")
APP = "tests.celery_project.app"
LONG = 60.0
"""Until a process has started on a machine that has other things to do."""


@pytest.fixture
def there():
    stage = CeleryStage()
    yield stage
    stage.end()


@pytest.fixture
def celery_mode(settings, there):
    settings.DUEBOX = {"UNDECLARED": "allow", "MODE": "celery", "CELERY": {"APP": APP, "QUEUE": there.queue}}
    yield there
    celery_wakeup._kicks().broker.close()


@pytest.fixture
def eager():
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


@pytest.mark.django_db(transaction=True)
class TestKicks:
    def test_one_message_is_sent_after_the_commit(self, celery_mode):
        with transaction.atomic():
            for _ in range(3):
                duebox.emit("ledger.noted")
            assert celery_mode.waiting() == []
        [sent] = celery_mode.waiting()
        assert sent["task"] == "duebox.deliver"
        assert sent["kwargsrepr"] == "{'database': 'default'}"

    def test_nothing_is_sent_for_what_is_rolled_back(self, celery_mode):
        with undone():
            duebox.emit("ledger.noted")
        assert celery_mode.waiting() == []

    def test_many_commits_send_one_now_and_one_a_moment_later(self, celery_mode):
        for _ in range(20):
            duebox.emit("ledger.noted")
        first, second = celery_mode.waiting()
        assert first["eta"] is None
        assert second["eta"]
        time.sleep(celery_wakeup.APART_SECONDS * 2.1)
        duebox.emit("ledger.noted")
        assert celery_mode.waiting()[2]["eta"] is None

    @pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "sqla+postgresql://p@127.0.0.1:1/none"])
    def test_without_the_broker_a_request_goes_on(self, celery_mode, caplog, url):
        app.conf.broker_write_url = url
        try:
            celery_wakeup._kicks.cache_clear()
            started = time.monotonic()
            for _ in range(20):
                duebox.emit("ledger.noted")
            assert time.monotonic() - started < 3
        finally:
            app.conf.broker_write_url = None
        assert caplog.text.count("Celery was not notified") == 1

    def test_a_handler_that_emits_sends_nothing(self, celery_mode, on):
        @on("ledger.opened", name="opens")
        def handle(event):
            duebox.emit("ledger.noted")

        duebox.emit("ledger.opened")
        sent = len(celery_mode.waiting())
        duebox.testing.drain()
        assert len(celery_mode.waiting()) == sent

    def test_in_other_modes_nothing_is_sent(self, there, settings):
        settings.DUEBOX = {"UNDECLARED": "allow", "CELERY": {"APP": APP, "QUEUE": there.queue}}
        duebox.emit("ledger.noted")
        assert there.waiting() == []


MISTAKES = [
    ("", "DUEBOX['MODE'] is 'celery', and there is no Celery app here; name yours in DUEBOX['CELERY']['APP']"),
    ("tests.nowhere.app", "DUEBOX['CELERY']['APP'] cannot be used: app 'tests.nowhere.app' cannot be imported"),
    ("tests.celery_project.no", "DUEBOX['CELERY']['APP'] cannot be used: app 'tests.celery_project.no' cannot be"),
    (
        "tests.settings.DATABASES",
        "DUEBOX['CELERY']['APP'] cannot be used: app 'tests.settings.DATABASES' is not a Celery",
    ),
    ("nodots", "DUEBOX['CELERY']['APP'] cannot be used: app 'nodots' cannot be imported"),
]


@pytest.fixture
def no_app():
    """As in a process that imports no Celery app, where Celery makes one up."""
    before = current_app._get_current_object()
    Celery("default", set_as_current=False).set_current()
    remember_app()
    yield
    before.set_current()
    remember_app()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("path", "said"), MISTAKES)
def test_an_app_that_cannot_be_found_is_told_by_the_check_and_logged_by_duebox(settings, no_app, caplog, path, said):
    settings.DUEBOX = {"UNDECLARED": "allow", "MODE": "celery", "CELERY": {"APP": path} if path else {}}
    [found] = run_checks(tags=["duebox"], databases=[])
    assert (found.id, found.msg[: len(said)]) == ("duebox.E013", said)
    for _ in range(3):
        duebox.emit("ledger.noted")
    [line] = caplog.records
    assert (line.name, line.levelname) == ("duebox.worker", "WARNING")
    assert line.message.startswith(f"Celery was not notified, duebox.sweep will deliver: {said}")


def test_an_app_that_is_found_passes_the_check(settings):
    settings.DUEBOX = {"UNDECLARED": "allow", "MODE": "celery", "CELERY": {"APP": APP}}
    assert run_checks(tags=["duebox"], databases=[]) == []


@pytest.mark.parametrize(
    ("url", "id", "words"),
    [
        ("memory://", "duebox.W031", "DUEBOX['MODE'] is 'celery': Duebox is not tested with memory as Celery's broker"),
        ("redsi://x", "duebox.E013", "DUEBOX['MODE'] is 'celery': kombu cannot load the broker's transport (No such"),
    ],
)
def test_a_broker_that_is_not_supported_is_told_by_the_check(settings, monkeypatch, url, id, words):
    monkeypatch.setitem(app.conf, "broker_write_url", url)
    settings.DUEBOX = {"UNDECLARED": "allow", "MODE": "celery", "CELERY": {"APP": APP}}
    [found] = run_checks(tags=["duebox"], databases=[])
    assert (found.id, found.msg[: len(words)]) == (id, words)


@pytest.mark.parametrize("celery", [5, {"APP": 5}, {"APP": ["x"]}])
def test_a_mistaken_kind_is_told_once(settings, celery):
    settings.DUEBOX = {"UNDECLARED": "allow", "MODE": "celery", "CELERY": celery}
    assert [each.id for each in run_checks(tags=["duebox"], databases=[])] == ["duebox.E001"]


@pytest.mark.django_db(transaction=True)
class TestEagerly:
    def test_it_is_delivered_right_after_the_commit_and_what_handlers_emit_as_well(self, celery_mode, eager, on):
        seen = []

        @on("step.*", name="steps")
        def handle(event):
            seen.append(event.data["number"])
            if event.data["number"] < 3:
                duebox.emit("step.taken", {"number": event.data["number"] + 1})
                seen.append("not inside of the handler")

        with transaction.atomic():
            duebox.emit("step.taken", {"number": 1})
            assert seen == []
        word = "not inside of the handler"
        assert seen == [1, word, 2, word, 3]
        assert celery_mode.waiting() == []

    def test_a_hook_that_emits_does_not_deliver_in_the_middle_of_a_delivery(self, celery_mode, eager, on):
        depth, deepest = 0, 0

        @on("hook.*", name="hooks")
        def handle(event):
            nonlocal depth, deepest
            depth += 1
            deepest = max(depth, deepest)
            if event.data["left"]:
                transaction.on_commit(lambda: duebox.emit("hook.ran", {"left": event.data["left"] - 1}))
            depth -= 1

        duebox.emit("hook.ran", {"left": 3})
        assert deepest == 1
        assert Attempt.objects.filter(outcome="delivered").count() == 4

    def test_the_task_itself_runs_here(self, eager, on):
        seen = []
        on("ledger.noted", name="notes")(lambda event: seen.append(event.type))
        duebox.emit("ledger.noted")
        door.deliver.apply()
        assert seen == ["ledger.noted"]


@pytest.mark.django_db
def test_eagerly_it_works_in_the_transaction_of_a_test(celery_mode, eager, on):
    seen = []
    on("ledger.noted", name="notes")(lambda event: seen.append(event.type))
    with TestCase.captureOnCommitCallbacks(execute=True):
        duebox.emit("ledger.noted")
    assert seen == ["ledger.noted"]


def test_beat_is_told_what_to_send():
    schedule = beat_schedule(sweep_seconds=7, queue="engine")
    assert {each["task"] for each in schedule.values()} <= set(app.tasks)
    assert schedule["duebox-sweep"]["schedule"] == 7
    assert schedule["duebox-sweep"]["options"] == {"queue": "engine", "expires": 7}


@pytest.mark.parametrize(
    ("limits", "times"),
    [
        ((None, None), (20.0, math.inf)),
        ((100, 10), (4.5, 4.5)),
        ((5, None), (2.25, 2.25)),
        ((300, 200), (20.0, 160.0)),
    ],
)
def test_a_run_ends_before_the_limits_of_celery_and_waits_for_its_handlers_if_there_are_none(limits, times):
    task = SimpleNamespace(request=SimpleNamespace(timelimit=limits), app=app, soft_time_limit=None, time_limit=None)
    assert door._times(task) == times


@pytest.mark.django_db(transaction=True)
def test_a_handler_that_takes_longer_than_a_run_ends_all_the_same(on, monkeypatch):
    monkeypatch.setattr(door, "RUN_SECONDS", 0.2)
    on("ledger.noted", name="slow")(lambda event: time.sleep(1.5))
    duebox.emit("ledger.noted")
    assert door.deliver.run()["delivered"] == 1


@pytest.mark.django_db(transaction=True)
def test_the_soft_limit_gives_back_what_did_not_run(on, monkeypatch):
    """Should it come in spite of all: in the middle of a round, as Celery raises it."""
    on("ledger.noted", name="notes")(lambda event: None)
    fact = duebox.emit("ledger.noted")

    def too_late(*args, **kwargs):
        raise SoftTimeLimitExceeded

    monkeypatch.setattr("duebox.worker.worker.Worker._poll", too_late)
    assert door.deliver.run() is None
    delivery = Delivery.objects.get(event_id=fact.id)
    assert (delivery.lease, delivery.attempt, delivery.rescues) == (None, 0, 0)
    assert not Worker.objects.exists()


@pytest.mark.django_db
def test_prune_lets_go_what_is_old(settings):
    settings.DUEBOX = {"AUDIT_KEY": "k" * 32, "AUDIT_YEARS": 1}
    with travel(datetime(2020, 1, 1, tzinfo=UTC)):
        duebox.audit("member.removed", ("member", 1))
    duebox.audit("member.added", ("member", 2))
    door.prune.run()
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {"member.added", "audit.pruned"}


@pytest.mark.crash
@pytest.mark.django_db(transaction=True)
class TestForReal:
    @pytest.mark.parametrize("broker", BROKERS)
    def test_a_commit_makes_a_celery_worker_deliver(self, broker, settings):
        stage = CeleryStage(BROKERS[broker])
        settings.DUEBOX = {"UNDECLARED": "allow", "MODE": "celery", "CELERY": {"APP": APP, "QUEUE": stage.queue}}
        app.conf.broker_write_url = stage.broker
        try:
            stage.worker(MODE="celery", CELERY={"APP": APP})
            fact = duebox.emit("ledger.posted", {"account": 1, "sequence": 1}, about=("account", 1))
            eventually(lambda: Effect.objects.filter(event_id=fact.id).count() == 3, LONG)
            eventually(lambda: not Delivery.objects.exists(), LONG)
        finally:
            app.conf.broker_write_url = None
            celery_wakeup._kicks().broker.close()
            stage.end()

    def test_beat_catches_what_no_message_was_sent_for(self, there):
        fact = duebox.emit("ledger.posted", {"account": 1, "sequence": 1}, about=("account", 1))
        there.worker()
        there.beat(1.0)
        eventually(lambda: Effect.objects.filter(event_id=fact.id).count() == 3, LONG)

    def test_a_worker_that_is_told_to_stop_in_the_middle_ends_what_runs_and_loses_nothing(self, there):
        facts = [duebox.emit("nap.asked", {"seconds": 0.4}) for _ in range(6)]
        process = there.worker(THREADS=1)
        app.send_task("duebox.deliver", queue=there.queue)
        eventually(lambda: Attempt.objects.filter(outcome="delivered").exists(), LONG)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0, there.logs()
        ran = Effect.objects.filter(subscriber="nap.sleeps").count()
        assert ran == Attempt.objects.filter(outcome="delivered").count()
        assert Delivery.objects.filter(lease=None, attempt=0, rescues=0).count() == len(facts) - ran
        assert not Worker.objects.exists()

    def test_a_soft_time_limit_ends_it_cleanly(self, there):
        for _ in range(10):
            duebox.emit("nap.asked", {"seconds": 0.4})
        there.worker(THREADS=1)
        app.send_task("duebox.deliver", queue=there.queue, soft_time_limit=2, time_limit=10)
        eventually(lambda: Attempt.objects.filter(outcome="delivered").exists(), LONG)
        eventually(lambda: not Worker.objects.exists(), LONG)
        left = Delivery.objects.count()
        assert 0 < left < 10
        assert Delivery.objects.filter(lease=None, attempt=0, rescues=0).count() == left
        assert "SoftTimeLimitExceeded" not in there.logs()

    def test_what_a_killed_process_held_is_rescued(self, there):
        """As a hard time limit does it."""
        fact = duebox.emit("nap.asked", {"seconds": 60})
        process = there.worker(THREADS=1)
        app.send_task("duebox.deliver", queue=there.queue)
        eventually(lambda: Delivery.objects.exclude(lease=None).exists(), LONG)
        for child in psutil.Process(process.pid).children():
            child.kill()
        assert not Attempt.objects.exists()
        beat = there.beat(1.0)
        eventually(lambda: Attempt.objects.filter(event_id=fact.id, outcome="rescued").exists(), LONG)
        assert beat.poll() is None

    def test_two_at_the_same_time_deliver_each_event_once(self, there):
        facts = [duebox.emit("ledger.posted", {"account": n, "sequence": 1}, about=("account", n)) for n in range(200)]
        there.worker("-c", "4")
        for _ in range(6):
            app.send_task("duebox.deliver", queue=there.queue)
        eventually(lambda: not Delivery.objects.exists(), LONG)
        assert Effect.objects.count() == 3 * len(facts)
        assert Attempt.objects.filter(outcome="delivered").count() == 3 * len(facts)
