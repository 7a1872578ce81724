"""What CeleryTask does beyond what every destination does; with real brokers and, where it says so, real workers."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta

import pytest
from celery import Celery, Task, current_app, signals
from celery.worker.request import Request
from django.core.checks import run_checks
from django.db import connections
from django.test.utils import CaptureQueriesContext
from kombu import Connection, Message, Queue

import duebox
from duebox.destinations import celery as celery_destination
from duebox.destinations.celery import CeleryTask
from duebox.destinations.registry import subscriptions
from duebox.events.outcomes import Snooze
from duebox.exceptions import InvalidDestination, Permanent, Refused, Undelivered
from duebox.integrations import celery
from duebox.models import Attempt, Delivery, SentTask
from duebox.store import destinations
from duebox.store.destinations import SentTaskState
from tests.app.models import Effect
from tests.celery_project import RABBITMQ, REDIS, app
from tests.celery_stage import BROKERS, POSTGRESQL, CeleryStage
from tests.destinations.celery_app import fates
from tests.destinations.conformance import a_fact
from tests.destinations.stages.brokers import in_a_child
from tests.support import eventually

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")
APP = "tests.celery_project.app"


@pytest.fixture
def there():
    stage = CeleryStage()
    yield stage
    stage.end()


@pytest.fixture
def made(there):
    """Destinations on the queue of the test."""
    all_of_them = []

    def make(**options):
        options = {"task": "project.record", "app": APP, "queue": there.queue, "broker": REDIS, "timeout": 2, **options}
        all_of_them.append(CeleryTask("celery", **options))
        return all_of_them[-1]

    yield make
    for each in all_of_them:
        each.close()


@pytest.fixture
def eager():
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


def test_a_task_has_the_id_of_its_event_on_every_try(made, there):
    fact = a_fact()
    destination = made()
    assert destination.deliver([fact]) == [None]
    assert destination.deliver([fact]) == [None]
    assert [each["id"] for each in there.waiting()] == [str(fact.id)] * 2


def test_the_headers_tell_what_nobody_should_have_to_look_for(made, there):
    fact = a_fact(metadata='{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}')
    made().deliver([fact])
    [headers] = there.waiting()
    assert headers["task"] == "project.record"
    assert headers["duebox_correlation_id"] == fact.correlation_id
    assert headers["duebox_event_type"] == "order.paid"
    assert headers["traceparent"].startswith("00-0af76519")
    assert headers["argsrepr"] == f"(<order.paid {fact.id}>,)"
    assert "duebox_settle" not in headers


def test_the_name_of_the_task_and_its_id_may_depend_on_the_event(made, there):
    destination = made(task="shop.{event_type}", task_id="mail-{event_id}")
    facts = [a_fact("order.paid"), a_fact("order.sent")]
    assert destination.deliver(facts) == [None, None]
    assert [(each["task"], each["id"]) for each in there.waiting()] == [
        (f"shop.{fact.type}", f"mail-{fact.id}") for fact in facts
    ]


def test_what_a_task_says_of_itself_counts(there, made):
    @app.task(name="project.limited", time_limit=30, soft_time_limit=20, expires=600)
    def limited(event):
        raise AssertionError("it is not run here")

    assert made(task="project.limited").deliver([a_fact()]) == [None]
    [headers] = there.waiting()
    assert headers["timelimit"] == [30, 20]
    assert headers["expires"]


def test_whoever_listens_to_celery_sees_the_arguments_and_may_add_headers(made, there):
    seen = []

    def listen(sender, body, headers, **kwargs):
        seen.append((sender, body[0][0]["data"]))
        headers["added"] = "yes"

    signals.before_task_publish.connect(listen)
    try:
        assert made().deliver([a_fact()]) == [None]
    finally:
        signals.before_task_publish.disconnect(listen)
    assert seen == [("project.record", {"total": 150})]
    assert there.waiting()[0]["added"] == "yes"


def test_several_threads_share_a_destination(made, there):
    destination = made()
    facts = [[a_fact() for _ in range(50)] for _ in range(8)]
    results = []
    threads = [threading.Thread(target=lambda each=each: results.extend(destination.deliver(each))) for each in facts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [None] * 400
    assert {each["id"] for each in there.waiting()} == {str(fact.id) for batch in facts for fact in batch}


AWAY = ["redis://127.0.0.1:1/0", "amqp://guest:guest@127.0.0.1:1//", "sqla+postgresql://p@127.0.0.1:1/none"]


@pytest.mark.parametrize("url", AWAY)
def test_a_broker_that_is_not_there_is_no_hang(made, url):
    started = time.monotonic()
    try:
        results = made(broker=url).deliver([a_fact(), a_fact()])
    except Undelivered as error:  # counts for all
        results = [error, error]
    assert time.monotonic() - started < 5
    for result in results:
        assert isinstance(result, Undelivered)
        assert "did not accept the task" in str(result)


def nothing(event):
    raise AssertionError("it is not run here")


def test_the_result_backend_is_not_needed_to_hand_over(made, there, monkeypatch):
    """`delay()` subscribes to the result. Nobody here reads it, and the worker stores it all the same."""
    shop = Celery("shop", broker=REDIS, backend="redis://127.0.0.1:1/0", set_as_current=False)
    shop.task(nothing, name="shop.stored", shared=False)
    shop.task(nothing, name="shop.ignored", shared=False, ignore_result=True)
    monkeypatch.setattr("tests.celery_project.other", shop, raising=False)
    started = time.monotonic()
    for task in ("shop.stored", "shop.ignored", "shop.elsewhere"):
        assert made(task=task, app="tests.celery_project.other").deliver([a_fact()]) == [None]
    assert time.monotonic() - started < 2
    assert [each["ignore_result"] for each in there.waiting()] == [False, True, False]


class TestClassesOfTasks:
    """A project may have an `apply_async` of its own; it counts as it does for `delay()`."""

    @pytest.fixture
    def task(self):
        yield lambda kind: app.task(nothing, name="project.of_class", base=kind, shared=False)
        app.tasks.pop("project.of_class")

    def test_what_it_adds_is_sent(self, made, there, task):
        class Tenant(Task):
            def apply_async(self, *args, headers=None, **options):
                return super().apply_async(*args, headers={**headers, "tenant": "7"}, **options)

        task(Tenant)
        assert made(task="project.of_class").deliver([a_fact()]) == [None]
        assert there.waiting()[0]["tenant"] == "7"

    def test_one_that_sends_nothing_is_tried_again(self, made, task):
        class Single(Task):
            def apply_async(self, *args, **options):
                return None

        task(Single)
        [result] = made(task="project.of_class").deliver([a_fact()])
        assert type(result) is Undelivered
        assert "has sent nothing" in str(result)

    def test_a_function_that_takes_no_argument_is_not_called(self, made, there, task):
        @app.task(name="project.of_class", shared=False)
        def without():
            raise AssertionError("it is not run here")

        [result] = made(task="project.of_class").deliver([a_fact()])
        assert isinstance(result, TypeError)
        assert there.waiting() == []


@pytest.mark.django_db(transaction=True)
class TestPostgreSQLAsBroker:
    """kombu's transport for SQLAlchemy, in the database of the test."""

    @pytest.fixture
    def stage(self, transactional_db):
        stage = CeleryStage(POSTGRESQL)
        yield stage
        stage.end()

    @pytest.fixture
    def queue(self, stage):
        with Connection(stage.broker) as connection:
            yield Queue(stage.queue, channel=connection.default_channel)
            connection.default_channel.session.close()

    def test_options_that_only_redis_knows_are_not_given_to_it(self, made, stage, queue):
        destination = made(broker=stage.broker, queue=stage.queue)
        facts = [a_fact() for _ in range(3)]
        assert destination.deliver(facts) == [None] * 3
        assert arrived(queue) == {str(fact.id) for fact in facts}

    def test_waiting_for_it_is_limited_by_its_url(self, made, stage):
        destination = made(broker=stage.broker, queue=stage.queue)
        url = destination.broker._connection().hostname
        assert "connect_timeout=2" in url
        assert "tcp_user_timeout=2000" in url

    def test_what_the_url_says_itself_stays(self, made, stage):
        destination = made(broker=f"{stage.broker}&connect_timeout=9", queue=stage.queue)
        assert "connect_timeout=9" in destination.broker._connection().hostname

    def test_after_a_fork_the_child_has_connections_of_its_own(self, made, stage, queue):
        destination = made(broker=stage.broker, queue=stage.queue)
        assert destination.deliver([a_fact()]) == [None]
        assert in_a_child(lambda: destination.deliver([a_fact()]) == [None])
        assert destination.deliver([a_fact()]) == [None]
        assert len(arrived(queue)) == 3

    def test_what_is_said_of_a_failure_holds_no_data(self, made, stage):
        destination = made(broker=stage.broker, queue=stage.queue)
        assert destination.deliver([a_fact()]) == [None]
        with connections["default"].cursor() as cursor:
            cursor.execute("ALTER TABLE kombu_message ADD CONSTRAINT small CHECK (length(payload) < 9) NOT VALID")
            try:
                [result] = destination.deliver([a_fact(data={"name": "Hunter"})])
            finally:
                cursor.execute("ALTER TABLE kombu_message DROP CONSTRAINT small")
        assert type(result) is Undelivered
        assert 'violates check constraint "small"' in str(result)
        assert "payload" not in str(result)
        assert destination.deliver([a_fact()]) == [None]


@pytest.fixture
def rabbit():
    stage = CeleryStage(RABBITMQ)
    with Connection(RABBITMQ) as connection:
        yield Queue(stage.queue, channel=connection.default_channel)
    stage.end()


def test_what_rabbitmq_cannot_route_is_not_delivered_and_its_queue_is_declared_again(made, rabbit):
    """RabbitMQ confirms what it drops. The queue is there for the first task, and then somebody deletes it."""
    destination = made(queue=rabbit.name, broker=RABBITMQ)
    assert destination.deliver([a_fact()]) == [None]
    rabbit.delete()
    for result in destination.deliver([a_fact(), a_fact()]):
        assert type(result) is Undelivered
        assert "no queue" in str(result)
    assert destination.deliver([a_fact(), a_fact()]) == [None, None]
    eventually(lambda: rabbit.queue_declare(passive=True).message_count == 2)


def test_what_rabbitmq_can_route_goes_beside_what_it_cannot(made, rabbit):
    """The events are told apart even where their tasks have the same id."""
    destination = made(
        task=rabbit.name, queue="", broker=RABBITMQ, task_id="{aggregate_id}", app="tests.destinations.celery_app.app"
    )
    facts = [a_fact() for _ in range(3)]
    gone = Queue(f"{rabbit.name}-gone", channel=rabbit.channel)
    fates[str(facts[1].id)] = Queue(gone.name, durable=True)
    try:
        assert destination.deliver(facts) == [None] * 3
        gone.delete()
        first, second, third = destination.deliver(facts)
        assert (first, third) == (None, None)
        assert type(second) is Undelivered
        eventually(lambda: rabbit.queue_declare(passive=True).message_count == 4)
    finally:
        del fates[str(facts[1].id)]
        gone.delete()


def arrived(queue):
    """The ids of the tasks in a queue."""
    found = set()
    while message := queue.get(no_ack=True):
        found.add(message.headers["id"])
    return found


class TestOneBadTask:
    """Of three events the second makes a task that the broker cannot be given; the others are handed over, once."""

    @pytest.fixture(params=BROKERS)
    def queue(self, request, transactional_db):
        stage = CeleryStage(BROKERS[request.param])
        with Connection(stage.broker) as connection:
            queue = Queue(stage.queue, channel=connection.default_channel)
            queue.broker = stage.broker
            yield queue
            if request.param == POSTGRESQL:
                connection.default_channel.session.close()
        stage.end()

    @pytest.fixture
    def listen(self):
        """Somebody who changes the task of one event before it is sent."""
        connected = []

        def connect(fact, change):
            def receiver(headers, properties, **kwargs):
                if headers["duebox_event_id"] == str(fact.id):
                    change(headers, properties)

            signals.before_task_publish.connect(receiver, weak=False)
            connected.append(receiver)

        yield connect
        for receiver in connected:
            signals.before_task_publish.disconnect(receiver)

    def fails_alone(self, destination, queue, facts, kind, words):
        first, second, third = destination.deliver(facts)
        assert (first, third) == (None, None)
        assert type(second) is kind
        assert words in str(second)
        assert [type(each) for each in destination.deliver([facts[1]])] == [kind]
        assert destination.deliver([a_fact()]) == [None]
        assert queue.queue_declare(passive=True).message_count == 3

    def test_an_id_that_is_too_long_for_rabbitmq_is_refused(self, made, rabbit):
        destination = made(queue=rabbit.name, broker=RABBITMQ, task_id="{aggregate_id}")
        facts = [a_fact(), a_fact(aggregate_id="€" * 100), a_fact()]
        self.fails_alone(destination, rabbit, facts, Refused, "cannot be written as a message")

    def test_a_header_that_cannot_be_written_is_refused(self, made, queue, listen):
        facts = [a_fact() for _ in range(3)]
        listen(facts[1], lambda headers, properties: headers.update(added=object()))
        destination = made(queue=queue.name, broker=queue.broker)
        self.fails_alone(destination, queue, facts, Refused, "cannot be written as a message")

    def test_headers_that_no_frame_of_rabbitmq_holds_are_refused(self, made, rabbit):
        """It closes the connection for them; what was not confirmed by then may have arrived, and is sent again."""
        facts = [a_fact(), a_fact(correlation="x" * 200_000), a_fact()]
        first, second, third = made(queue=rabbit.name, broker=RABBITMQ).deliver(facts)
        assert (first, third) == (None, None)
        assert type(second) is Refused
        assert "headers" in str(second)
        assert arrived(rabbit) == {str(facts[0].id), str(facts[2].id)}

    def test_a_queue_that_rabbitmq_knows_otherwise_takes_nothing(self, made, rabbit):
        destination = made(task=rabbit.name, queue="", broker=RABBITMQ, app="tests.destinations.celery_app.app")
        facts = [a_fact() for _ in range(3)]
        other = Queue(f"{rabbit.name}-other", durable=True, max_length=7, channel=rabbit.channel)
        other.declare()
        fates[str(facts[1].id)] = Queue(other.name, durable=True)
        try:
            self.fails_alone(destination, rabbit, facts, Undelivered, "PRECONDITION_FAILED")
        finally:
            del fates[str(facts[1].id)]
            other.delete()

    def test_a_message_against_the_rules_of_rabbitmq_is_told_from_its_neighbours(self, made, rabbit, listen):
        """It closes the channel for it; what was not confirmed by then may have arrived, and is sent again alone."""
        facts = [a_fact() for _ in range(3)]
        listen(facts[1], lambda headers, properties: properties.update(user_id="somebody-else"))
        first, second, third = made(queue=rabbit.name, broker=RABBITMQ).deliver(facts)
        assert (first, third) == (None, None)
        assert type(second) is Refused
        assert "user_id" in str(second)
        assert arrived(rabbit) == {str(facts[0].id), str(facts[2].id)}


def test_after_a_fork_the_child_has_connections_of_its_own(made, rabbit):
    destination = made(queue=rabbit.name, broker=RABBITMQ)
    assert destination.deliver([a_fact()]) == [None]
    assert in_a_child(lambda: destination.close() is None)
    assert in_a_child(lambda: destination.deliver([a_fact()]) == [None])
    assert destination.deliver([a_fact()]) == [None]
    assert rabbit.queue_declare(passive=True).message_count == 3


def test_a_password_that_was_not_quoted_is_never_shown(made):
    with pytest.raises(InvalidDestination, match="broker is not a URL") as caught:
        made(broker="amqp://guest:p4ss#word@127.0.0.1:5672//").deliver([a_fact()])
    assert "p4ss" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_mistakes_are_said_with_their_repair():
    for options, words in (
        ({"settle": "later"}, "'accepted' or 'finished'"),
        ({"app": "tests.nowhere.app"}, "cannot be imported"),
        ({"app": "tests.celery_project.REDIS"}, "is not a Celery app"),
        ({"timeout": 0}, "above 0"),
        ({"task": "shop.{colour}"}, "'colour'"),
        ({"task": ""}, "task is empty"),
    ):
        with pytest.raises(InvalidDestination, match=words):
            CeleryTask("celery", **{"task": "a", "app": APP, **options})
    [(fact, repair)] = CeleryTask("celery", task="a", app=APP, settle="finished", finish_within=1).check()
    assert "sent twice" in fact
    assert repair


@pytest.fixture
def no_default(monkeypatch):
    """Celery makes an app the default of all threads only where DJANGO_SETTINGS_MODULE is set before it is made."""
    monkeypatch.setattr("celery._state.default_app", None)
    monkeypatch.setattr(celery_destination, "_remembered", [])


@pytest.fixture
def shop(no_default):
    """An app that is current in this thread."""
    before = current_app._get_current_object()
    yield Celery("shop", broker=REDIS, fixups=[])
    before.set_current()


def test_an_app_need_not_be_named_in_any_thread(shop):
    assert CeleryTask("celery", task="a")._app is shop
    celery_destination.remember_app()
    found = []
    thread = threading.Thread(target=lambda: found.append(CeleryTask("celery", task="a")._app))
    thread.start()
    thread.join()
    assert found == [shop]


def test_an_app_that_nobody_configured_is_not_taken(no_default):
    found = []

    def make():
        try:
            CeleryTask("celery", task="a")
        except InvalidDestination as error:
            found.append(str(error))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert "with the option app" in found[0]


@pytest.mark.parametrize("settle", ["accepted", "finished"])
@pytest.mark.django_db
def test_eagerly_a_task_runs_at_once_and_its_failure_is_the_deliverys(made, eager, settle):
    fact = a_fact()
    assert made(settle=settle).deliver([fact]) == [None]
    assert Effect.objects.get().event_id == fact.id
    [failure] = made(task="project.fail", settle=settle).deliver([fact])
    assert isinstance(failure, ValueError)
    [refusal] = made(task="project.refuse", settle=settle).deliver([fact])
    assert isinstance(refusal, Permanent)
    [unknown] = made(task="project.unknown", settle=settle).deliver([fact])
    assert isinstance(unknown, Refused)


@pytest.mark.parametrize(
    ("elapsed", "next_look"), [(2.0, 2.0), (3.0, 3.0), (600.0, 600.0), (3000.0, 600.0), (-5.0, 2.0)]
)
def test_a_task_is_looked_after_again_no_later_than_it_has_taken_so_far(elapsed, next_look):
    """It may end in the moment in which a worker holds its delivery, and then nobody is woken."""
    there = CeleryTask("celery", task="a", app=APP, settle="finished", finish_within=3600.0)
    known = SentTaskState("1", ended=False, error="", permanent=False, seconds_left=3600.0 - elapsed, took=None)
    assert there._known_result(known) == Snooze(timedelta(seconds=next_look))


@pytest.fixture
def waits(there, settings, transactional_db):
    """A destination that waits for its task; gives what emits to it, and its queue."""

    def configure(task, **options):
        options = {"task": task, "app": APP, "queue": there.queue, "settle": "finished", "timeout": 2, **options}
        entry = {
            "BACKEND": "duebox.destinations.celery.CeleryTask",
            "OPTIONS": options,
            "RETRY": {"limit": 1, "first": 0.1, "jitter": 0},
            "BREAKER": False,
        }
        settings.DUEBOX = {
            "UNDECLARED": "allow",
            "DESTINATIONS": {"celery": entry},
            "ROUTES": [{"match": "order.*", "to": "celery"}],
        }

    yield configure
    for each in subscriptions().values():
        each.destination().close()


def outcomes(fact):
    return list(Attempt.objects.filter(event_id=fact.id).order_by("id").values_list("outcome", flat=True))


@pytest.mark.crash
@pytest.mark.parametrize("broker", BROKERS)
def test_it_is_delivered_when_the_task_has_finished(broker, settings, waits, hire):
    stage = CeleryStage(BROKERS[broker])
    try:
        stage.worker()
        waits("project.nap", queue=stage.queue, broker=stage.broker)
        hire(threads=1)
        nap = 6 if broker == POSTGRESQL else 3  # of a database Celery's worker asks once a second
        slow, quick = (duebox.emit("order.paid", {"seconds": seconds}) for seconds in (nap, 0))
        eventually(lambda: outcomes(quick)[-1:] == ["delivered"])
        assert set(outcomes(quick)) == {"snoozed", "delivered"}
        assert not Effect.objects.filter(event_id=slow.id).exists()
        eventually(lambda: outcomes(slow)[-1] == "delivered")
        assert Effect.objects.filter(event_id=slow.id).count() == 1
        note = Attempt.objects.get(event_id=slow.id, outcome="delivered").note
        assert nap <= float(note.removeprefix("The task ended after ").removesuffix(" s.")) < nap + 3
        assert not Delivery.objects.exists()
    finally:
        stage.end()


@pytest.mark.crash
def test_a_task_that_fails_is_tried_again_and_dies_as_the_destination_says(there, waits, hire):
    there.worker()
    waits("project.fail")
    hire(threads=1)
    fact = duebox.emit("order.paid")
    eventually(lambda: outcomes(fact)[-1:] == ["dead"])
    assert [each for each in outcomes(fact) if each != "snoozed"] == ["retried", "dead"]
    assert "the task did not like it" in Attempt.objects.get(outcome="dead").note
    assert Delivery.objects.dead().get().attempt == 2


@pytest.mark.crash
@pytest.mark.parametrize(
    ("task", "words"),
    [("project.refuse", "never"), ("project.die", "Worker exited"), ("project.none", "has no task")],
)
def test_every_end_of_a_task_is_heard_of(there, waits, hire, task, words):
    there.worker()
    waits(task)
    hire(threads=1)
    fact = duebox.emit("order.paid")
    eventually(lambda: outcomes(fact)[-1:] == ["dead"])
    retried = outcomes(fact).count("retried")
    assert retried == (0 if task == "project.refuse" else 1)
    assert words in Attempt.objects.get(outcome="dead").note


@pytest.mark.crash
def test_a_task_that_tries_again_by_itself_is_waited_for(there, waits, hire):
    there.worker()
    waits("project.again")
    hire(threads=1)
    fact = duebox.emit("order.paid")
    eventually(lambda: outcomes(fact)[-1:] == ["delivered"])
    assert "retried" not in outcomes(fact)
    assert Effect.objects.filter(event_id=fact.id).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_task_that_never_reports_is_sent_again_with_the_same_id(there, waits, hire):
    waits("project.record", finish_within=0.5)
    hire(threads=1)
    fact = duebox.emit("order.paid")
    eventually(lambda: len(there.waiting()) >= 2)
    assert {each["id"] for each in there.waiting()} == {str(fact.id)}
    assert set(outcomes(fact)) == {"snoozed"}
    assert Delivery.objects.get().attempt == 0


@pytest.mark.django_db
class TestReports:
    """What the destination makes of a report, and of none."""

    @pytest.fixture
    def destination(self, made):
        return made(settle="finished")

    def test_while_nothing_is_heard_it_is_not_sent_again(self, destination, there):
        fact = a_fact()
        [first] = destination.deliver([fact])
        [second] = destination.deliver([fact])
        assert first.until.total_seconds() == second.until.total_seconds() == 2
        assert len(there.waiting()) == 1
        assert there.waiting()[0]["duebox_settle"] == "finished"

    def test_a_success_is_told_as_often_as_it_is_asked_for(self, destination, there):
        fact = a_fact()
        destination.deliver([fact])
        assert destinations.end_sent_task("default", str(fact.id), "project.record") == 1
        for _ in range(2):
            [result] = destination.deliver([fact])
            assert isinstance(result, duebox.events.outcomes.Delivered)
        assert len(there.waiting()) == 1

    def test_a_failure_is_told_once_and_then_it_is_sent_again(self, destination, there):
        fact = a_fact()
        destination.deliver([fact])
        destinations.end_sent_task("default", str(fact.id), "project.record", error="no", permanent=True)
        [result] = destination.deliver([fact])
        assert isinstance(result, Refused)
        destination.deliver([fact])
        assert len(there.waiting()) == 2
        assert SentTask.objects.get().ended_at is None

    def test_a_report_of_another_task_is_not_for_it(self, destination):
        fact = a_fact()
        destination.deliver([fact])
        assert destinations.end_sent_task("default", str(fact.id), "project.other") == 0

    def test_the_first_report_counts(self, destination):
        fact = a_fact()
        destination.deliver([fact])
        destinations.end_sent_task("default", str(fact.id), "project.record")
        assert destinations.end_sent_task("default", str(fact.id), "project.record", error="late") == 0

    def test_what_could_not_be_sent_is_not_waited_for(self, made):
        destination = made(settle="finished", broker="redis://127.0.0.1:1/0")
        [result] = destination.deliver([a_fact()])
        assert isinstance(result, Undelivered)
        assert not SentTask.objects.exists()

    def test_notes_go_when_their_delivery_is_settled(self, destination):
        destination.deliver([a_fact()])
        kept = a_fact()
        destination.deliver([kept])
        Delivery.objects.create(event_id=kept.id, subscriber="to:celery")
        destinations.prune_sent_tasks("default", "to:celery")
        assert SentTask.objects.get().event_id == kept.id

    def test_a_delivery_that_a_worker_holds_is_left_alone(self, destination):
        fact = a_fact()
        destination.deliver([fact])
        far = duebox.clock.now().replace(year=2100)
        held = Delivery.objects.create(event_id=fact.id, subscriber="to:celery", due_at=far, lease=7)
        destinations.end_sent_task("default", str(fact.id), "project.record")
        held.refresh_from_db()
        assert (held.due_at, held.lease) == (far, 7)

    def test_one_that_waits_is_made_due(self, destination):
        fact = a_fact()
        destination.deliver([fact])
        far = duebox.clock.now().replace(year=2100)
        waiting = Delivery.objects.create(event_id=fact.id, subscriber="to:celery", due_at=far)
        destinations.end_sent_task("default", str(fact.id), "project.record")
        waiting.refresh_from_db()
        assert waiting.due_at < far


@pytest.mark.django_db(databases=["default", "other"])
class TestOtherDatabase:
    """The worker serves a database that is not the usual one, and says so after the destination was made."""

    @pytest.fixture
    def headers(self, made, there):
        """Of a task that reports to the other database."""
        destination = made(settle="finished")
        destination.using = "other"
        destination.deliver([a_fact()])
        return there.waiting()[0]

    @pytest.fixture
    def request_(self, headers):
        message = Message(headers=headers, body=b"", channel=None)
        return Request(message, app=app, body=([{}], {}, {}), decoded=True)

    @pytest.fixture
    def reported(self):
        """Which of the databases were told of an end."""

        def told(report):
            with (
                CaptureQueriesContext(connections["default"]) as usual,
                CaptureQueriesContext(connections["other"]) as other,
            ):
                report()
            return [name for name, seen in (("default", usual), ("other", other)) if len(seen)]

        return told

    def test_a_task_is_told_where_to_report(self, headers):
        assert headers["duebox_database"] == "other"

    def test_a_revoked_one_reports_there(self, request_, reported):
        assert reported(lambda: celery.revoked(sender=request_.task, request=request_._context)) == ["other"]
        assert SentTask.objects.using("other").get().permanent

    def test_an_unknown_one_reports_there(self, headers, reported):
        message = Message(headers=headers, body=b"", channel=None)
        report = {"name": headers["task"], "id": headers["id"], "message": message}
        assert reported(lambda: celery.unknown(**report)) == ["other"]
        assert "has no task" in SentTask.objects.using("other").get().error

    def test_one_whose_process_was_killed_reports_there(self, request_, reported):
        """Some versions of Celery then say no more than which task it was."""
        celery.received(request=request_)
        report = {"sender": request_.task, "task_id": request_.id, "exception": ValueError("killed"), "args": [{}]}
        assert reported(lambda: celery.failed(**report)) == ["other"]
        assert "killed" in SentTask.objects.using("other").get().error

    def test_what_nobody_waits_for_reports_nowhere(self, made, there, reported):
        made().deliver([a_fact()])
        [headers] = there.waiting()
        message = Message(headers=headers, body=b"", channel=None)
        request = Request(message, app=app, body=([{}], {}, {}), decoded=True)
        celery.received(request=request)
        task, id = request.task, request.id
        assert reported(lambda: celery.revoked(sender=task, request=request._context)) == []
        assert reported(lambda: celery.unknown(name=task.name, id=id, message=message)) == []
        assert reported(lambda: celery.failed(sender=task, task_id=id, exception=ValueError(), args=[{}])) == []


@pytest.mark.django_db  # for other checks
class TestTasksThatNobodyKnows:
    """Celery's worker throws away a task that it does not know, and the event with it."""

    @pytest.fixture
    def said(self, settings):
        def check(**options):
            backend = "duebox.destinations.celery.CeleryTask"
            settings.DUEBOX = {
                "DESTINATIONS": {"mail": {"BACKEND": backend, "OPTIONS": {"app": APP, **options}}},
                "ROUTES": [{"match": "*", "to": "mail"}],
            }
            return [each for each in run_checks(tags=["duebox"], databases=[]) if each.id == "duebox.W017"]

        yield check
        settings.DUEBOX = {"UNDECLARED": "allow"}

    @pytest.mark.parametrize("settle", ["accepted", "finished"])
    def test_a_name_that_the_app_does_not_know_is_a_warning(self, said, settle):
        [warning] = said(task="project.recrod", settle=settle)
        assert warning.msg == "DUEBOX['DESTINATIONS']['mail']: the Celery app has no task 'project.recrod'."
        assert "Did you mean 'project.record'?" in warning.hint
        assert "another project" in warning.hint
        assert not warning.is_serious()

    def test_the_check_does_not_run_inside_itself_although_celery_runs_all_checks_when_it_imports(self, said):
        runs = []

        def check_all(**kwargs):
            runs.append(1)
            run_checks(tags=["duebox"], databases=[])

        signals.import_modules.connect(check_all)
        try:
            assert len(said(task="project.recrod")) == 1
        finally:
            signals.import_modules.disconnect(check_all)
        assert len(runs) == 1

    @pytest.mark.parametrize("name", ["project.record", "shop.{event_type}"])
    def test_one_that_it_knows_or_that_depends_on_the_event_is_none(self, said, name):
        assert said(task=name) == []

    @pytest.fixture
    def imports(self, monkeypatch):
        """What the app tells Celery to import; its loader remembers that."""

        def change(name):
            vars(app.loader).pop("default_modules", None)
            monkeypatch.setitem(app.conf, "imports", [name])

        yield change
        vars(app.loader).pop("default_modules", None)
        app.tasks.pop("project.later", None)

    def test_a_task_that_celery_would_find_when_its_worker_starts_is_known(self, said, imports, monkeypatch):
        monkeypatch.delitem(sys.modules, "tests.destinations.celery_later", raising=False)
        imports("tests.destinations.celery_later")
        assert said(task="project.later") == []

    def test_where_its_modules_cannot_be_imported_nobody_can_say(self, said, imports):
        imports("tests.destinations.of_nobody")
        assert said(task="project.recrod") == []


@pytest.mark.django_db  # for other checks
class TestBrokersThatAreNotSupported:
    @pytest.fixture
    def said(self, settings):
        def check(broker):
            options = {"app": APP, "task": "project.record", "broker": broker}
            settings.DUEBOX = {
                "DESTINATIONS": {"mail": {"BACKEND": "duebox.destinations.celery.CeleryTask", "OPTIONS": options}},
                "ROUTES": [{"match": "duebox.*", "to": "mail"}],
            }
            return [
                each for each in run_checks(tags=["duebox"], databases=[]) if each.id in ("duebox.E010", "duebox.W031")
            ]

        yield check
        settings.DUEBOX = {"UNDECLARED": "allow"}

    @pytest.mark.parametrize("broker", [REDIS, RABBITMQ, "sqla+postgresql://localhost/shop"])
    def test_nothing_is_said_of_those_that_are(self, said, broker):
        assert said(broker) == []

    @pytest.mark.parametrize(
        ("broker", "name"), [("memory://", "memory"), ("filesystem://", "filesystem"), ("sqla+sqlite://", "sqlite")]
    )
    def test_one_that_duebox_is_not_tested_with_is_a_warning(self, said, broker, name):
        [warning] = said(broker)
        assert (warning.id, warning.is_serious()) == ("duebox.W031", False)
        assert f"not tested with {name} as Celery's broker" in warning.msg
        assert "Redis, RabbitMQ, PostgreSQL" in warning.hint

    @pytest.mark.parametrize(
        ("broker", "words"),
        [
            ("redsi://localhost", "No such transport: redsi"),
            ("mongodb://localhost", "pymongo"),
            ("amqp://guest:p4ss#word@127.0.0.1:5672//", "broker is not a URL"),
        ],
    )
    def test_one_that_kombu_cannot_load_is_an_error(self, said, broker, words):
        [error] = said(broker)
        assert error.id == "duebox.E010"
        assert words in error.msg
        assert error.hint
        assert "p4ss" not in error.msg
