"""Destinations as the settings describe them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

import duebox
from duebox.destinations.base import Breaker, Destination
from duebox.destinations.registry import destination_of, read_entry, subscriptions
from duebox.events.outcomes import Retry
from duebox.exceptions import InvalidDestination
from duebox.models import Delivery, Event
from duebox.testing import drain
from tests.app.outside import Post

POST = "tests.app.outside.Post"
NAN = float("nan")


@pytest.fixture
def configured():
    stack = []

    def configure(destinations, routes=(), **settings):
        entry = override_settings(
            DUEBOX={"UNDECLARED": "allow", "DESTINATIONS": destinations, "ROUTES": list(routes), **settings}
        )
        entry.enable()
        stack.append(entry)

    yield configure
    for entry in reversed(stack):
        entry.disable()
    Post.boxes.clear()


def problems(tag="duebox"):
    return [(each.id, each.msg) for each in run_checks(tags=[tag], databases=[])]


def test_an_entry_becomes_a_subscriber_with_its_terms(configured):
    configured({
        "post": {
            "BACKEND": POST, "RATE": 50, "CONCURRENCY": 2, "ORDERED": True, "ON_DEAD": "skip", "BREAKER": False,
            "RETRY": {"limit": 2, "first": 1.0},
        }
    })  # fmt: skip
    found = subscriptions()["post"]
    assert (found.name, found.ordered, found.on_dead, found.atomic) == ("to:post", True, "skip", False)
    assert (found.policy.rate, found.policy.concurrency, found.policy.breaker) == (50, 2, None)
    assert (found.retry.limit, found.retry.first) == (2, 1.0)


def test_waits_can_be_said_one_by_one(configured):
    configured({"post": {"BACKEND": POST, "RETRY": {"delays": [5, 300, 1800], "jitter": 0}}})
    assert subscriptions()["post"].retry == Retry(
        **{**_fields(subscriptions()["post"].retry), "delays": (5, 300, 1800)}
    )
    assert [subscriptions()["post"].retry.delay(attempt) for attempt in (1, 2, 3)] == [5, 300, 1800]


def _fields(retry):
    return {name: getattr(retry, name) for name in retry.__dataclass_fields__}


def test_a_destination_is_made_on_first_use_and_once(configured):
    configured({"post": {"BACKEND": POST}})
    assert Post.boxes == {}
    assert destination_of("to:post") is destination_of("to:post") is Post.boxes["post"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "needs a BACKEND"),
        ({"BACKEND": "tests.app.outside.Nowhere"}, "cannot be imported"),
        ({"BACKEND": "tests.app.outside.threading"}, "is not a Destination"),
        ({"BACKEND": POST, "OPTION": {}}, "did you mean 'OPTIONS'"),
        ({"BACKEND": POST, "RETRY": 5}, "RETRY is 5; it must be a dict, such as {'limit': 5, 'first': 10.0}."),
        ({"BACKEND": POST, "RETRY": None}, "RETRY is None; it must be a dict"),
        ({"BACKEND": POST, "RETRY": {"limits": 3}}, "RETRY has 'limits', which is not known; did you mean 'limit'?"),
        ({"BACKEND": POST, "RETRY": {7: 3}}, "RETRY has 7, which is not known; known are limit, first,"),
        ({"BACKEND": POST, "RETRY": {"limit": -1}}, "limit must be from 0 to 10,000"),
        ({"BACKEND": POST, "RETRY": {"limit": 2.5}}, "RETRY['limit'] is 2.5; it must be a whole number."),
        ({"BACKEND": POST, "RETRY": {"limit": True}}, "RETRY['limit'] is True; it must be a whole number."),
        ({"BACKEND": POST, "RETRY": {"first": "x"}}, "RETRY['first'] is 'x'; it must be a number."),
        ({"BACKEND": POST, "RETRY": {"jitter": NAN}}, "RETRY['jitter'] is nan; it must be a number."),
        ({"BACKEND": POST, "RETRY": {"delays": 5}}, "RETRY['delays'] is 5; it must be a list of numbers."),
        ({"BACKEND": POST, "RETRY": {"delays": "55"}}, "RETRY['delays'] is '55'; it must be a list of numbers."),
        ({"BACKEND": POST, "RETRY": {"delays": [5, "x"]}}, "RETRY['delays'][1] is 'x'; it must be a number."),
        ({"BACKEND": POST, "RETRY": {"delays": [5, -1]}}, "delays are seconds, from 0"),
        ({"BACKEND": POST, "RETRY": {"permanent": KeyError}}, "permanent and transient are tuples of error classes"),
        ({"BACKEND": POST, "RATE": "fast"}, "RATE is 'fast'; it must be a number."),
        ({"BACKEND": POST, "RATE": True}, "RATE is True; it must be a number."),
        ({"BACKEND": POST, "RATE": -1}, "RATE is -1; it must be above 0, or 0 for no limit."),
        ({"BACKEND": POST, "RATE": NAN}, "RATE is nan; it must be a number."),
        ({"BACKEND": POST, "RATE": float("inf")}, "RATE is inf; it must be a number."),
        ({"BACKEND": POST, "RATE": 10**400}, "it must be a number."),
        (
            {"BACKEND": POST, "BURST": -1},
            "BURST is -1; it must be above 0, or 0 for the events of a tenth of a second.",
        ),
        ({"BACKEND": POST, "BURST": 1.5}, "BURST is 1.5; it must be a whole number."),
        ({"BACKEND": POST, "CONCURRENCY": 0}, "CONCURRENCY is 0"),
        ({"BACKEND": POST, "CONCURRENCY": NAN}, "CONCURRENCY is nan; it must be a whole number."),
        ({"BACKEND": POST, "ORDERED": "no"}, "ORDERED is 'no'; it must be True or False."),
        ({"BACKEND": POST, "ORDERED": 1}, "ORDERED is 1; it must be True or False."),
        ({"BACKEND": POST, "ON_DEAD": "wait"}, "must be 'block' or 'skip'"),
        ({"BACKEND": POST, "ON_DEAD": ["block"]}, "must be 'block' or 'skip'"),
        ({"BACKEND": POST, "BREAKER": {"share": 2}}, "BREAKER['share'] is 2; it must be above 0 and at most 1."),
        ({"BACKEND": POST, "BREAKER": {"share": "x"}}, "BREAKER['share'] is 'x'; it must be a number."),
        ({"BACKEND": POST, "BREAKER": {"share": NAN}}, "BREAKER['share'] is nan; it must be a number."),
        ({"BACKEND": POST, "BREAKER": {"calls": 0.5}}, "BREAKER['calls'] is 0.5; it must be a whole number."),
        ({"BACKEND": POST, "BREAKER": {"calls": 0}}, "BREAKER['calls'] is 0; it must be above 0."),
        ({"BACKEND": POST, "BREAKER": {"pause": NAN}}, "BREAKER['pause'] is nan; it must be a number."),
        ({"BACKEND": POST, "BREAKER": {"window": -1}}, "BREAKER['window'] is -1; it must be above 0."),
        ({"BACKEND": POST, "BREAKER": {"pauze": 1}}, "BREAKER has 'pauze', which is not known; did you mean 'pause'?"),
        (
            {"BACKEND": POST, "BREAKER": "off"},
            "BREAKER is 'off'; it must be a dict, such as {'pause': 60.0}, or False.",
        ),
        ({"BACKEND": POST, "OPTIONS": []}, "OPTIONS must be a dict"),
        ({"BACKEND": "duebox.destinations.base.Destination", "ORDERED": True}, "does not preserve the order"),
    ],
)
def test_a_mistake_is_found_by_the_check_and_stops_every_emission(configured, db, entry, message):
    configured({"post": entry})
    [(_id, said)] = [each for each in problems() if each[0] == "duebox.E009"]
    assert message in said
    assert "'post'" in said
    with pytest.raises(ImproperlyConfigured, match="Nothing is emitted until that is repaired"):
        duebox.emit("order.paid", {})
    assert not Event.objects.exists()


@pytest.mark.parametrize("alias", ["with space", "a/b", "a:b", "", "ä", "a\nb", "a\n"])
def test_an_alias_is_a_plain_word(configured, alias):
    configured({alias: {"BACKEND": POST}})
    assert any("an alias may contain only" in said for _, said in problems())


def test_a_wrong_route_is_found_by_the_check(configured):
    configured({"post": {"BACKEND": POST}}, [{"match": "order.*", "to": "pots"}])
    [(_, said)] = [each for each in problems() if each[0] == "duebox.E009"]
    assert said == "DUEBOX['ROUTES'][0]: A route goes to 'pots', which is not a destination; did you mean 'post'?"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("DESTINATIONS", [], "DUEBOX['DESTINATIONS'] is a list."),
        ("DESTINATIONS", None, "DUEBOX['DESTINATIONS'] is a NoneType."),
        ("ROUTES", {"match": "order.*", "to": "post"}, "DUEBOX['ROUTES'] is {'match': 'order.*', 'to': 'post'}."),
        ("ROUTES", 5, "DUEBOX['ROUTES'] is 5."),
        ("ROUTES", "order.*", "DUEBOX['ROUTES'] is 'order.*'."),
    ],
)
def test_a_setting_of_the_wrong_kind_is_told_once_and_stops_every_emission(configured, db, key, value, said):
    configured(**{"destinations": {"post": {"BACKEND": POST}}, key: value})
    assert [each for each in problems() if each[0] != "duebox.W012"] == [("duebox.E001", said)]
    with pytest.raises(ImproperlyConfigured, match="Nothing is emitted until that is repaired"):
        duebox.emit("order.paid", {})
    assert not Event.objects.exists()


def test_a_destination_that_no_route_leads_to_is_warned_of(configured):
    configured(
        {"post": {"BACKEND": POST}, "lost": {"BACKEND": POST}, "parts": {"BACKEND": "tests.app.outside.Parts"}},
        [{"match": "letter.*", "to": "post"}],
    )
    assert [each for each in problems() if each[0] == "duebox.W012"] == [
        ("duebox.W012", "DUEBOX['DESTINATIONS']['lost']: no route leads there, so nothing is ever delivered to it.")
    ]


def test_a_breaker_is_on_or_off(configured):
    configured({name: {"BACKEND": POST, "BREAKER": given} for name, given in (("a", True), ("b", False), ("c", None))})
    assert [subscriptions()[name].policy.breaker for name in "abc"] == [Breaker(), None, None]


def test_options_that_do_not_fit_are_found_by_the_check(configured):
    configured({"post": {"BACKEND": POST, "OPTIONS": {"answer": 1}}})
    [(_id, said)] = [each for each in problems() if each[0] == "duebox.E010"]
    assert "answers" in said


QUEUE = {"queue_url": "https://sqs.eu-central-1.amazonaws.com/1/a"}


@pytest.mark.parametrize(
    ("backend", "options", "said"),
    [
        ("aws.SQS", {**QUEUE, "timeout": "x"}, "timeout is 'x'; it must be a number."),
        ("aws.SQS", {**QUEUE, "timeout": NAN}, "timeout is nan; it must be a number."),
        ("aws.SQS", {**QUEUE, "region": 5}, "region is a int; it must be a text or None."),
        ("aws.SQS", {**QUEUE, "endpoint_url": "x"}, "OPTIONS do not fit SQS (Invalid endpoint: x)"),
        ("aws.EventBridge", {"region": "x", "source": 5}, "source is a int; it must be a text."),
        ("rabbitmq.RabbitMQ", {"url": ["amqp://me:secret@h"], "exchange": ""}, "url is a list; it must be a text."),
        (
            "rabbitmq.RabbitMQ",
            {"url": "amqp://h", "exchange": "", "timeout": True},
            "timeout is True; it must be a number",
        ),
        ("nats.NatsJetStream", {"url": 5}, "url is a int; it must be a text or a list."),
        ("nats.NatsJetStream", {"url": "nats://h", "options": 5}, "options is a int; it must be a dict or None."),
        ("kafka.Kafka", {"servers": "h:1", "timeout": NAN}, "timeout is nan; it must be a number."),
        ("celery.CeleryTask", {"task": "a.b", "app": 5}, "app is a int; it must be a text."),
        ("django_tasks.DjangoTask", {"task": 5}, "task is a int; it must be a text."),
    ],
)
def test_an_option_of_the_wrong_kind_is_an_error_of_the_check_and_never_a_crash(configured, backend, options, said):
    configured({"post": {"BACKEND": f"duebox.destinations.{backend}", "OPTIONS": options}})
    [found] = [each for each in problems() if each[0] == "duebox.E010"]
    assert said in found[1]
    assert "secret" not in found[1]


def test_a_class_of_ones_own_is_asked_by_its_annotations(configured):
    make = read_entry("post", {"BACKEND": f"{__name__}.Own"}, ())[0].destination
    assert make().alias == "post"
    for options in ({"where": tuple}, {"much": 2}, {"much": 2.5}, {"when": date(2026, 11, 16)}, {"any": object()}):
        assert make_with(options).alias == "post"
    for options in ({"much": "2"}, {"much": True}, {"much": NAN}):
        with pytest.raises(InvalidDestination, match="it must be a number"):
            make_with(options)


def make_with(options):
    return read_entry("post", {"BACKEND": f"{__name__}.Own", "OPTIONS": options}, ())[0].destination()


class Own(Destination):
    def __init__(
        self, alias: str, *, where: type = dict, much: int = 1, when: date | None = None, any: Any = None
    ) -> None:
        super().__init__(alias)


def test_a_route_that_no_declared_type_is_like_is_refused(configured, declare):
    @declare("order.paid")
    class Paid:
        total: int

    routes = [{"match": match, "to": "post"} for match in ("order.*", "ordre.*", {"event_type": [{"prefix": "ord"}]},
              {"event_type": [{"prefix": "mem"}]}, "duebox.delivery.dead")]  # fmt: skip
    configured({"post": {"BACKEND": POST}}, routes, UNDECLARED="refuse")
    found = [said for id, said in problems() if id == "duebox.E011"]
    assert len(found) == 2
    assert "'ordre.*'" in found[0]
    assert "mem" in found[1]
    configured({"post": {"BACKEND": POST}}, routes)
    assert len([said for id, said in problems() if id == "duebox.W008"]) == 2


def test_handlers_may_not_take_the_names_of_destinations(on):
    with pytest.raises(duebox.exceptions.InvalidSubscriber, match="begins with the prefix of destinations"):
        on("order.*", name="to:bus")(lambda event: None)


def test_events_are_routed_when_they_are_emitted(configured, db):
    configured(
        {"post": {"BACKEND": POST}, "risk": {"BACKEND": POST}},
        [{"match": "order.*", "to": "post"}, {"match": {"data": {"total": [{"numeric": [">", 100]}]}}, "to": "risk"}],
    )
    small, large = duebox.emit("order.paid", {"total": 5}), duebox.emit("order.paid", {"total": 500})
    found = Delivery.objects.values_list("event_id", "subscriber")
    assert set(found) == {(small.id, "to:post"), (large.id, "to:post"), (large.id, "to:risk")}


def test_two_routes_to_one_destination_make_one_delivery(configured, db):
    configured({"post": {"BACKEND": POST}}, [{"match": each, "to": "post"} for each in ("order.*", "*.paid")])
    duebox.emit("order.paid", {})
    assert Delivery.objects.count() == 1


def test_an_ordered_destination_takes_events_without_an_aggregate_too(configured, db):
    configured({"post": {"BACKEND": POST, "ORDERED": True}}, [{"match": "*", "to": "post"}])
    duebox.emit("order.paid", {})
    duebox.emit("order.paid", {}, about=("order", 1))
    assert list(Delivery.objects.order_by("id").values_list("stream", flat=True)) == [None, "order:1"]


def test_tests_deliver_to_destinations_with_drain(configured, db):
    configured({"post": {"BACKEND": POST}}, [{"match": "*", "to": "post"}])
    fact = duebox.emit("order.paid", {})
    assert drain().delivered == 1
    assert Post.boxes["post"].facts == [fact]


def test_an_unknown_destination_is_said_so(configured):
    configured({"post": {"BACKEND": POST}})
    with pytest.raises(InvalidDestination, match="'bus' is not configured"):
        destination_of("to:bus")
    with pytest.raises(InvalidDestination, match="has no endpoint 'x'"):
        destination_of("to:post/x")
