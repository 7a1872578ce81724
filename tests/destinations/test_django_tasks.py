"""What DjangoTask does beyond what every destination does."""

from __future__ import annotations

import pytest

import duebox
from duebox.destinations.django_tasks import DjangoTask
from duebox.exceptions import InvalidDestination, Refused, Undelivered
from duebox.models import Event
from duebox.testing import drain
from tests.app import tasks as ours
from tests.destinations.conformance import a_fact

OURS = "duebox.tasks.backend.DueboxBackend"


@pytest.fixture(autouse=True)
def _nothing_ran():
    ours.ran.clear()


def test_a_task_that_runs_at_once_gets_the_envelope():
    fact = a_fact()
    [result] = DjangoTask("tasks", task="tests.app.tasks.note").deliver([fact])
    [[envelope]] = ours.ran
    assert (envelope["event_id"], envelope["data"]) == (str(fact.id), fact.data)
    assert result.note.startswith("Task ")


def test_its_failure_is_the_deliverys():
    [failure] = DjangoTask("tasks", task="tests.app.tasks.fail").deliver([a_fact()])
    assert isinstance(failure, Undelivered)
    assert "ValueError" in str(failure)


def test_what_does_not_fit_the_task_is_refused():
    """The task takes no argument."""
    [failure] = DjangoTask("tasks", task="tests.app.tasks.answer").deliver([a_fact()])
    assert "TypeError" in str(failure)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "tests.app.tasks.gone"}, "cannot be imported"),
        ({"task": "tests.app.tasks.no_task"}, "is not a task; decorate it"),
        ({"task": "tests.app.tasks.note", "queue": "unknown"}, "does not fit its backend"),
        ({"task": "tests.app.tasks.note", "backend": "unknown"}, "does not fit its backend"),
    ],
)
def test_mistakes_are_said_when_it_is_made(options, words):
    with pytest.raises(InvalidDestination, match=words):
        DjangoTask("tasks", **options)


def test_a_task_that_the_backend_refuses_later_is_refused_for_good(settings):
    destination = DjangoTask("tasks", task="tests.app.tasks.note")
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["other"]}}
    [result] = destination.deliver([a_fact()])
    assert isinstance(result, Refused)


@pytest.mark.django_db
def test_with_our_own_backend_each_event_becomes_a_task(settings):
    settings.TASKS = {"default": {"BACKEND": OURS}}
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {
            "tasks": {
                "BACKEND": "duebox.destinations.django_tasks.DjangoTask",
                "OPTIONS": {"task": "tests.app.tasks.note"},
            }
        },
        "ROUTES": [{"match": "order.*", "to": "tasks"}],
    }
    fact = duebox.emit("order.paid", {"total": 3})
    drain()
    [[envelope]] = ours.ran
    assert envelope["event_id"] == str(fact.id)
    assert Event.objects.get(type="duebox.task").causation_id == fact.id


@pytest.mark.django_db
def test_a_task_belongs_to_the_story_of_its_event_however_many_are_carried_at_once(settings):
    settings.TASKS = {"default": {"BACKEND": OURS}}
    facts = [a_fact(), a_fact()]
    DjangoTask("tasks", task="tests.app.tasks.note").deliver(facts)
    told = {(each.causation_id, each.correlation_id) for each in Event.objects.filter(type="duebox.task")}
    assert told == {(fact.id, fact.correlation_id) for fact in facts}
