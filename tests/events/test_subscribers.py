from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from duebox import Limit, Retry
from duebox.events import subscribers
from duebox.events.subscribers import receivers_of
from duebox.exceptions import InvalidSubscriber
from duebox.models import Delivery
from duebox.testing import drain


def names(event_type):
    return {each.name for each in receivers_of(event_type)}


@pytest.mark.parametrize(
    ("pattern", "received", "not_received"),
    [
        ("member.invited", ["member.invited"], ["member.invited.again", "a.member.invited", "member.left"]),
        ("member.*", ["member.invited", "member.address.changed"], ["members.invited", "team.member.left"]),
        ("*.invited", ["member.invited", "team.member.invited"], ["member.uninvited", "member.invited.again"]),
        ("*", ["member.invited", "a.b.c"], []),
    ],
)
def test_a_pattern_is_exact_or_a_prefix_or_a_suffix_or_all(on, pattern, received, not_received):
    @on(pattern, name="it")
    def handler(event):
        pass

    assert [each for each in received + not_received if names(each)] == received


@pytest.mark.parametrize("pattern", ["Member.invited", "member.", "mem*", "a.*.b", "**", "member invited"])
def test_a_pattern_that_can_match_nothing_is_refused_with_the_forms_there_are(on, pattern):
    with pytest.raises(InvalidSubscriber, match=r"must look like 'a.b', 'a.\*', '\*.b' or '\*'"):

        @on(pattern)
        def handler(event):
            pass


@pytest.mark.django_db
def test_several_handlers_of_one_event_have_a_delivery_each(on, emit):
    @on("member.invited", name="first")
    def first(event):
        pass

    @on("member.*", name="second")
    def second(event):
        raise ValueError

    fact = emit("member.invited")
    assert set(Delivery.objects.values_list("event_id", "subscriber")) == {(fact.id, "first"), (fact.id, "second")}
    drained = drain(raises=False)
    assert (drained.delivered, drained.retried) == (1, 1)
    assert Delivery.objects.get().subscriber == "second"


def test_the_name_is_by_default_the_module_and_the_function(on):
    @on("member.invited")
    def greet(event):
        pass

    (name,) = names("member.invited")
    assert name == f"{__name__}.test_the_name_is_by_default_the_module_and_the_function.greet"


@pytest.mark.django_db
def test_a_delivery_under_the_old_name_reaches_the_renamed_handler(on, emit):
    @on("member.invited", name="old.name")
    def before(event):
        raise AssertionError("the old code is gone")

    fact = emit("member.invited")
    subscribers.remove("old.name")
    seen = []

    @on("member.invited", name="new.name", aliases=["old.name"])
    def after(event):
        seen.append(event)

    drain()
    assert seen == [fact]
    assert names("member.invited") == {"new.name"}


def test_a_taken_name_is_refused_with_both_places_and_the_repair(on):
    @on("member.invited", name="greet")
    def one(event):
        pass

    with pytest.raises(InvalidSubscriber) as caught:

        @on("member.left", name="greet")
        def two(event):
            pass

    message = str(caught.value)
    assert "'greet' is taken by tests.events.test_subscribers" in message
    assert ".one (line " in message
    assert ".two (line " in message
    assert message.endswith("another one with @duebox.on(..., name=...).")
    assert names("member.left") == set()


def test_an_alias_that_is_another_ones_name_is_refused(on):
    @on("member.invited", name="greet")
    def one(event):
        pass

    with pytest.raises(InvalidSubscriber, match="'greet' is taken"):

        @on("member.left", name="wave", aliases=["greet"])
        def two(event):
            pass


def test_handlers_made_in_a_loop_under_one_name_are_refused(on):
    def make(number):
        @on("member.invited", name="greet")
        def handler(event):
            return number

    make(1)
    with pytest.raises(InvalidSubscriber, match="'greet' is taken"):
        make(2)


def test_one_handler_for_two_patterns_needs_two_names(on):
    with pytest.raises(InvalidSubscriber, match=r"is taken by .*another one with @duebox.on\(..., name=...\)"):

        @on("member.invited")
        @on("member.left")
        def handler(event):
            pass


def test_one_handler_for_two_patterns_under_two_names_receives_both(on):
    @on("member.invited", name="invited")
    @on("member.left", name="left")
    def handler(event):
        pass

    assert (names("member.invited"), names("member.left")) == ({"invited"}, {"left"})


def test_a_module_that_is_imported_again_may_register_its_handlers_again(on):
    source = "import duebox\n@duebox.on('member.invited', name='again')\ndef handler(event): return {}"
    for version in (1, 2):
        exec(compile(source.format(version), "twice.py", "exec"), {"__name__": "twice"})
    (only,) = receivers_of("member.invited")
    assert only.handler(None) == 2


def test_registering_the_very_same_thing_twice_changes_nothing(on):
    def handler(event):
        pass

    for _ in range(2):
        on("member.invited", name="it")(handler)
    assert names("member.invited") == {"it"}


@pytest.mark.parametrize(
    "handler",
    [lambda: None, lambda event, more: None, lambda *, event: None],
    ids=["none", "two", "keyword only"],
)
def test_a_handler_that_cannot_take_one_event_is_refused(on, handler):
    with pytest.raises(
        InvalidSubscriber, match=r"cannot be called with one event .*; write it as def <lambda>\(event\)"
    ):
        on("member.invited", name="wrong")(handler)
    assert "wrong" not in subscribers.by_name()


def test_a_handler_may_have_more_parameters_with_defaults(on):
    on("member.invited", name="right")(lambda event, more=1, *rest, **options: None)
    assert names("member.invited") == {"right"}


@pytest.mark.parametrize("name", ["with space", "ünicode", "x" * 201, "a/b"])
def test_a_name_that_cannot_be_typed_on_a_command_line_is_refused(on, name):
    with pytest.raises(InvalidSubscriber, match=r"pass a plain one with @duebox.on"):
        on("member.invited", name=name)(lambda event: None)


def test_an_unknown_policy_for_dead_letters_is_refused(on):
    with pytest.raises(InvalidSubscriber, match="'explode'; it must be 'block' or 'skip'"):
        on("member.invited", name="it", on_dead="explode")(lambda event: None)


def test_a_callable_without_a_name_of_its_own_needs_one(on):
    with pytest.raises(InvalidSubscriber, match=r"name=..."):
        on("member.invited")(partial(print))


@pytest.mark.django_db
def test_a_callable_object_works_under_a_given_name(on, emit):
    seen = []

    class Greeter:
        def __call__(self, event):
            seen.append(event.type)

    on("member.invited", name="greeter")(Greeter())
    emit("member.invited")
    drain()
    assert seen == ["member.invited"]


def test_options_are_kept_for_the_worker(on):
    retry = Retry(limit=1)
    on("member.invited", name="it", atomic=False, ordered=True, on_dead="skip", retry=retry)(lambda event: None)
    (it,) = receivers_of("member.invited")
    assert (it.atomic, it.ordered, it.on_dead, it.retry, it.is_async) == (False, True, "skip", retry, False)


def test_a_removed_subscriber_receives_nothing_more(on):
    on("member.invited", name="it", aliases=["old"])(lambda event: None)
    subscribers.remove("it")
    assert names("member.invited") == set()
    assert not {"it", "old"} & set(subscribers.by_name())


def test_a_number_is_the_number_of_retries(on):
    for count in (0, 3):
        on("a.b", name=f"it.{count}", retry=count)(lambda event: None)
        assert subscribers.by_name()[f"it.{count}"].retry == Retry(limit=count)


@pytest.mark.parametrize("retry", [True, -1, 10_001, 1.5, "3", {"limit": 3}, Retry])
def test_what_is_no_retry_policy_is_refused_when_it_is_declared(on, retry):
    with pytest.raises(InvalidSubscriber, match=r"retry=.* pass "):
        on("a.b", name="it", retry=retry)


def test_a_timeout_is_seconds_or_a_timedelta(on):
    on("a.b", name="one", timeout=30)(lambda event: None)
    on("a.b", name="two", timeout=timedelta(minutes=2))(lambda event: None)
    on("a.b", name="three")(lambda event: None)
    assert [subscribers.by_name()[name].timeout for name in ("one", "two", "three")] == [30.0, 120.0, None]


@pytest.mark.parametrize("timeout", [True, 0, -1, float("nan"), float("inf"), "30", timedelta(0)])
def test_what_is_no_timeout_is_refused_when_it_is_declared(on, timeout):
    with pytest.raises(InvalidSubscriber, match=r"timeout=.* is not a duration; pass seconds above 0"):
        on("a.b", name="it", timeout=timeout)


@pytest.mark.parametrize(
    "values", [{}, {"burst": 3}, {"rate": 0}, {"rate": "10"}, {"rate": True}, {"concurrency": 0}, {"concurrency": 1.5}]
)
def test_a_limit_that_cannot_be_meant_is_refused(values):
    with pytest.raises(InvalidSubscriber, match=r"Limit\("):
        Limit(**values)


def test_a_limit_that_is_a_number_is_refused_with_what_to_write(on):
    with pytest.raises(InvalidSubscriber, match=r"limit=4 is not a limit; pass duebox.Limit\(concurrency=4\)"):
        on("a.b", name="it", limit=4)
