from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

import duebox
from duebox.exceptions import Refused
from duebox.models import Attempt, Delivery, Event, WebhookEndpoint
from duebox.testing import drain
from tests.support import a_lease, claims_of, expire

pytestmark = pytest.mark.django_db

ACTIONS = [["retry"], ["park", "--note", "x"], ["discard", "--reason", "x"]]
ALL = [["list"], ["groups"], *ACTIONS]


@pytest.fixture
def run(manage):
    """`duebox deliveries ...`"""
    return lambda *words: manage("duebox", "deliveries", *map(str, words))


@pytest.fixture
def found(run):
    """What a listing prints as JSON."""
    return lambda *words: [json.loads(line) for line in run(*words, "--json").splitlines()]


@pytest.fixture
def dead(on):
    """The ids of three dead letters: a.b to `it` and to `other`, a.c to `it`."""

    @on("a.*", name="it", retry=duebox.Retry(limit=1, first=0))
    def it(event):
        raise ValueError(f"no luck with {event.type}")

    @on("a.b", name="other")
    def other(event):
        raise duebox.Permanent("no such address")

    duebox.emit("a.b", {"number": 1})
    duebox.emit("a.c", {"number": 2})
    drain(raises=False)
    return list(Delivery.objects.order_by("id").values_list("id", flat=True))


@pytest.fixture
def every_state(on):
    """The id of one delivery in each state, to the handler of that name."""

    def failing(event):
        raise ValueError("not yet")

    on("s.retried", name="retrying", retry=duebox.Retry(limit=9, first=3600))(failing)
    on("s.snoozed", name="scheduled")(lambda event: duebox.Snooze(timedelta(hours=1)))
    on("s.died", name="dead", ordered=True, retry=duebox.Retry(limit=0))(failing)
    on("s.parked", name="parked", retry=duebox.Retry(limit=0))(failing)
    for _ in range(2):
        duebox.emit("s.died", about=("order", 7))
    for name in ("s.retried", "s.snoozed", "s.parked"):
        duebox.emit(name, about=("order", 7), organization="9", correlation_id="c-1")
    drain(raises=False)
    Delivery.objects.filter(subscriber="parked").update(status="parked")
    for name in ("running", "due", "orphaned"):
        on("s.came", name=name)(lambda event: None)
    duebox.emit("s.came")
    claims_of(a_lease(), "running")
    duebox.events.subscribers.remove("orphaned")
    ids = dict(Delivery.objects.exclude(status="waiting").values_list("subscriber", "id"))
    return {**ids, "waiting": Delivery.objects.get(status="waiting").id}


STATES = ["dead", "due", "orphaned", "parked", "retrying", "running", "scheduled", "waiting"]


# Listing


def test_without_deliveries_it_says_so(run):
    assert run("list") == "No deliveries.\n"
    assert run("list", "--json") == run("groups", "--json") == ""
    assert run("groups") == "No dead letters.\n"
    assert run("groups", "--state", "parked") == "No parked deliveries.\n"


@pytest.mark.parametrize("state", STATES)
def test_deliveries_are_listed_by_state(found, every_state, state):
    one, *others = found("list", "--state", state)
    assert one["id"] == every_state[state]
    assert [each["id"] for each in others] == ([every_state["orphaned"]] if state == "due" else [])
    assert one["state"] == ("due" if state == "orphaned" else state)
    assert one["orphaned"] == (state == "orphaned")


def test_without_a_state_all_are_listed_and_states_can_be_added_up(found, every_state):
    assert {each["id"] for each in found("list")} == {*every_state.values()}
    both = found("list", "--state", "retrying", "--state", "dead")
    assert {each["id"] for each in both} == {every_state["retrying"], every_state["dead"]}


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (["--about", "order:7"], {"retrying", "scheduled", "parked", "dead", "waiting"}),
        (["--correlation-id", "c-1"], {"retrying", "scheduled", "parked"}),
        (["--organization", "9"], {"retrying", "scheduled", "parked"}),
        (["--organization", "9", "--state", "parked"], {"parked"}),
        (["--handler", "due"], {"due"}),
        (["--handler", "orphaned"], {"orphaned"}),
        (["--type", "s.d*"], {"dead", "waiting"}),
        (["--about", "order:8"], set()),
    ],
)
def test_deliveries_are_found_by_what_their_events_say(found, every_state, words, states):
    assert {each["id"] for each in found("list", *words)} == {every_state[state] for state in states}


def test_a_table_says_what_people_want_to_know(run, every_state):
    head, line = run("list", "--state", "retrying").splitlines()
    assert head.split() == ["id", "state", "event", "about", "to", "due", "or", "dead,", "utc", "failed", "error"]
    told = line.split()
    assert told[:5] == [str(every_state["retrying"]), "retrying", "s.retried", "order:7", "retrying"]
    assert line.endswith("1  ValueError: not yet")
    lines = run("list", "--state", "orphaned").splitlines()
    assert "due, orphaned" in lines[1]
    assert "`duebox status` shows the repair" in lines[-1]


def test_a_list_is_cut_and_says_so(run, dead):
    lines = run("list", "--limit", "1").splitlines()
    assert len(lines) == 3
    assert lines[-1] == "Only the first 1; --limit shows more."
    assert len(run("list", "--limit", "3").splitlines()) == 4


def test_what_is_pending_is_listed_in_the_order_in_which_it_is_due(found, on, settings):
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"bus": {"BACKEND": "tests.app.outside.Post"}}}
    on("a.came", name="it")(lambda event: None)
    for _ in range(4):
        duebox.emit("a.came")
    ids = list(Delivery.objects.order_by("id").values_list("id", flat=True))
    Delivery.objects.filter(id=ids[1]).update(subscriber="to:bus")
    for hours, id in enumerate(reversed(ids), 1):
        Delivery.objects.filter(id=id).update(due_at=timezone.now() - timedelta(hours=9 - hours))
    assert [each["id"] for each in found("list", "--state", "due", "--limit", "3")] == ids[::-1][:3]


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_looked_at(run, dead):
    assert run("list", "--database", "other") == "No deliveries.\n"


# Showing


def test_a_delivery_is_shown_with_its_whole_history_and_the_way_out(run, dead):
    shown = run("show", dead[0])
    assert 'data: {"number": 1}' in shown
    assert "state: dead\n" in shown
    assert "attempt 1: retried" in shown
    assert "attempt 2: dead" in shown
    assert "Traceback (most recent call last):" in shown
    assert shown.endswith(f"Retry it now: manage.py duebox deliveries retry {dead[0]}\n")


def test_a_delivery_is_shown_with_the_moment_at_which_it_expires(run, on):
    on("a.b", name="it")(lambda event: None)
    moment = datetime(2100, 1, 2, 3, 4, tzinfo=UTC)
    duebox.emit("a.b", expires=moment)
    one = Delivery.objects.get().id
    assert "expires: 2100-01-02 03:04 UTC\n" in run("show", one)
    assert json.loads(run("show", one, "--json"))["expires_at"] == moment.isoformat()


def test_a_delivery_as_json_has_its_history(run, dead):
    shown = json.loads(run("show", dead[0], "--json"))
    assert [each["outcome"] for each in shown["history"]] == ["retried", "dead"]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("retrying", "state: retrying, failed 1 time, due "),
        ("scheduled", "state: scheduled, due "),
        ("running", "state: running on "),
        ("orphaned", ", orphaned\n"),
        ("waiting", "stream: order:7\n"),
    ],
)
def test_a_delivery_in_any_state_is_shown(run, every_state, state, told):
    assert told in run("show", every_state[state])


def test_an_orphaned_delivery_is_not_offered_a_retry(run, every_state):
    assert "deliveries retry" not in run("show", every_state["orphaned"])


@pytest.mark.parametrize("words", [["show"], *ACTIONS])
def test_an_id_that_is_not_there_is_refused_with_where_to_look(run, words):
    with pytest.raises(CommandError, match=r"the id 999; .*`duebox deliveries list` lists those that are stored"):
        run(words[0], 999, *words[1:])


def test_what_somebody_answered_cannot_steer_the_terminal(run, on):
    @on("a.b", name="it")
    def it(event):
        raise Refused("The answer was 500. \x1b[31mred\n\x1b]0;title\x07", status=500)

    duebox.emit("a.b")
    drain(raises=False)
    shown = run("show", Delivery.objects.get().id)
    assert "\x1b" not in shown + run("list") + run("groups")
    assert "    \\x1b]0;title\\x07" in shown


# Groups


def test_groups_are_listed_with_their_count_a_sample_and_the_error(run, dead):
    lines = run("groups").splitlines()
    assert lines[0].split() == ["count", "event", "to", "first,", "utc", "last,", "utc", "sample", "group", "error"]
    assert len(lines) == 5
    assert any(line.split()[:3] == ["1", "a.c", "it"] and "ValueError: no luck with a.c" in line for line in lines)
    assert lines[-1] == "Retry a group: manage.py duebox deliveries retry --group GROUP"


def test_groups_as_json_are_one_a_line(found, dead):
    groups = found("groups")
    assert {(each["event_type"], each["subscriber"]) for each in groups} == {
        ("a.b", "it"),
        ("a.b", "other"),
        ("a.c", "it"),
    }
    assert all(each["count"] == 1 and each["sample"] in dead for each in groups)


@pytest.fixture
def alike(on):
    """Dead letters of one cause, in four groups: two types, each to two handlers."""

    def broken(event):
        raise duebox.Permanent("no luck")

    for name in ("one", "two"):
        on("b.*", name=name)(broken)
    for _ in range(2):
        duebox.emit("b.came")
        duebox.emit("b.went")
    drain(raises=False)
    assert len(set(Delivery.objects.dead().values_list("fingerprint", flat=True))) == 1


@pytest.mark.parametrize(("verb", "said"), [*zip(ACTIONS, ["due now", "parked", "discarded"], strict=True)])
def test_a_group_is_dealt_with_by_its_id_and_nothing_else_is(run, found, alike, verb, said):
    (one,) = found("groups", "--type", "b.came", "--handler", "one")
    assert one["group"] in run("groups")
    assert run(*verb, "--group", one["group"]) == f"2 {said}.\n"
    left = {(each["event_type"], each["subscriber"]): each["count"] for each in found("groups")}
    assert left == {("b.came", "two"): 2, ("b.went", "one"): 2, ("b.went", "two"): 2}


def test_the_way_out_of_a_part_of_a_group_names_that_part(run, alike):
    run("park", "--type", "b.came", "--note", "x")
    told = run("groups", "--state", "parked", "--since", "2020-01-01 10:00")
    assert told.endswith("retry --group GROUP --since '2020-01-01 10:00' --state parked\n")


def test_a_delivery_says_its_group(run, found, alike):
    letter = found("list", "--limit", "1")[0]
    assert f"group: {letter['group']}\n" in run("show", letter["id"])
    assert [each["group"] for each in found("list", "--group", letter["group"])] == [letter["group"]] * 2
    assert [each["group"] for each in found("groups", "--group", letter["group"])] == [letter["group"]]


@pytest.mark.parametrize("words", ALL)
def test_a_group_that_is_not_there_is_refused_with_where_to_look(run, alike, words):
    with pytest.raises(CommandError, match="No dead letter is in the group 'abc'; `duebox deliveries groups` lists"):
        run(*words, "--group", "abc")
    assert Delivery.objects.dead().count() == 8


def test_a_group_of_parked_deliveries_is_asked_for_as_such(run, found, alike):
    group = found("groups")[0]["group"]
    run("park", "--group", group, "--note", "x")
    with pytest.raises(CommandError, match="No dead letter is in the group"):
        run("retry", "--group", group)
    assert len(found("list", "--state", "parked", "--group", group)) == 2
    assert run("retry", "--state", "parked", "--group", group) == "2 due now.\n"
    with pytest.raises(CommandError, match=r"No parked delivery is in the group"):
        run("retry", "--state", "parked", "--group", group)


# Retrying


def test_a_retry_without_saying_which_is_refused(run, dead):
    with pytest.raises(CommandError, match=r"Say which ones: ids, --state, --type, --handler, .*or --all"):
        run("retry")
    with pytest.raises(CommandError, match="leave out the ids and the other filters"):
        run("retry", "--all", "--type", "a.b")
    assert Delivery.objects.dead().count() == 3


def test_deliveries_are_retried_by_id_and_the_history_says_by_whom(run, dead):
    one, two, _ = dead
    assert run("retry", one, two) == "2 due now.\n"
    assert Delivery.objects.dead().count() == 1
    told = Attempt.objects.filter(outcome="redriven")
    assert {each.delivery_id for each in told} == {one, two}
    assert all(each.note.startswith("retried by ") for each in told)


def test_one_wrong_id_among_many_retries_none(run, dead):
    with pytest.raises(CommandError, match="id 999"):
        run("retry", dead[0], 999)
    assert Delivery.objects.dead().count() == 3


@pytest.mark.parametrize(
    ("words", "left"),
    [(["--type", "a.b"], 1), (["--handler", "it"], 1), (["--type", "a.b", "--handler", "it"], 2), (["--all"], 0)],
)
def test_deliveries_are_retried_by_filter(run, dead, words, left):
    assert run("retry", *words) == f"{3 - left} due now.\n"
    assert Delivery.objects.dead().count() == left


def test_a_dry_run_only_says_how_many_and_shows_one(run, dead):
    assert run("retry", "--all", "--dry-run").splitlines() == [
        "3 would be due now.",
        f"The first of them is {dead[0]}, a.b to it: ValueError: no luck with a.b",
        "Dry run: nothing was changed.",
    ]
    assert Delivery.objects.dead().count() == 3


def test_a_retry_as_json_lists_the_ids(run, dead):
    told = json.loads(run("retry", "--all", "--json"))
    assert (sorted(told["retried"]), told["left"], told["dry_run"]) == (dead, [], False)


def test_a_retried_delivery_is_delivered_once_the_handler_is_repaired(run, dead, on):
    duebox.events.subscribers.remove("other")
    on("a.b", name="other")(lambda event: None)
    run("retry", "--handler", "other")
    assert drain().delivered == 1


@pytest.mark.parametrize("state", ["dead", "parked", "retrying", "scheduled"])
def test_what_failed_or_waits_for_its_time_is_retried_by_its_id(run, found, every_state, state):
    assert run("retry", every_state[state]) == "1 due now.\n"
    (one,) = found("list", "--handler", state, "--state", "due")
    assert (one["id"], one["attempt"]) == (every_state[state], 0)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("running", "it is running on "),
        ("due", "it is due already"),
        ("waiting", "it waits behind delivery "),
        (
            "orphaned",
            "this code has no handler or destination 'orphaned'; add that to aliases= of a handler, or discard it",
        ),
    ],
)
def test_what_cannot_be_retried_is_refused_with_the_reason(run, every_state, state, why):
    before = Delivery.objects.filter(id=every_state[state]).values().get()
    with pytest.raises(CommandError, match=f"1 left as it is:\n  {every_state[state]}: {re.escape(why)}"):
        run("retry", every_state[state])
    assert Delivery.objects.filter(id=every_state[state]).values().get() == before
    assert not Attempt.objects.filter(delivery_id=every_state[state], outcome="redriven").exists()


def test_without_a_state_what_is_dead_or_retrying_is_retried(run, every_state):
    assert run("retry", "--type", "s.*") == "2 due now.\n"
    assert set(Attempt.objects.filter(outcome="redriven").values_list("delivery_id", flat=True)) == {
        every_state["dead"],
        every_state["retrying"],
    }


def test_what_was_found_by_a_filter_and_cannot_be_retried_is_counted_by_reason(run, every_state):
    assert run("retry", "--state", "running", "--state", "parked").splitlines()[0] == "1 due now."
    told = run("retry", "--state", "due", "--state", "orphaned")
    assert "0 due now.\n" in told
    assert "2 left: it is due already.\n" in told
    assert "1 left: this code has no handler or destination 'orphaned'" in told


def test_a_running_delivery_whose_worker_is_lost_can_be_taken_back(run, every_state):
    lease = Delivery.objects.get(id=every_state["running"]).lease
    expire(lease)
    assert run("retry", every_state["running"]) == "1 due now.\n"
    assert Delivery.objects.get(id=every_state["running"]).lease is None


def test_deliveries_are_retried_by_the_time_of_their_death(run, dead):
    tomorrow = (timezone.now() + timedelta(days=1)).isoformat()
    assert run("retry", "--since", tomorrow) == "0 due now.\n"
    assert run("retry", "--since", "2020-01-01") == "3 due now.\n"


def test_no_more_are_retried_than_the_limit_says_and_so_many_a_second(run, dead):
    assert run("retry", "--all", "--limit", "2", "--rate", "0.01") == "2 due now.\n"
    one, two = Delivery.objects.filter(status="pending").order_by("id")
    assert 90 < (two.due_at - one.due_at).total_seconds() < 110
    assert Delivery.objects.dead().count() == 1


# Parking and discarding


def test_a_delivery_is_parked_with_a_note_and_listed_apart(run, found, dead):
    first = dead[0]
    assert run("park", first, "--note", "asks the supplier") == "1 parked.\n"
    assert len(found("list", "--state", "dead")) == 2
    (one,) = found("list", "--state", "parked")
    assert one["error"] == "ValueError: no luck with a.b"
    assert re.fullmatch(r"parked by .+: asks the supplier", one["note"])
    assert "asks the supplier" in run("list", "--state", "parked")
    assert "parked by" in run("show", first)
    assert run("retry", "--all") == "2 due now.\n"
    assert run("retry", "--state", "parked") == "1 due now.\n"


@pytest.mark.parametrize("state", ["dead", "retrying", "scheduled", "due", "orphaned", "waiting"])
def test_deliveries_in_any_state_but_running_are_parked_and_no_worker_takes_them(run, every_state, state):
    assert run("park", every_state[state], "--note", "wait") == "1 parked.\n"
    drain(raises=False)
    assert Delivery.objects.get(id=every_state[state]).status == "parked"


@pytest.mark.parametrize("state", ["dead", "parked", "retrying", "scheduled", "due", "orphaned", "waiting"])
def test_deliveries_in_any_state_but_running_are_discarded(run, every_state, state):
    assert run("discard", every_state[state], "--reason", "too late") == "1 discarded.\n"
    assert not Delivery.objects.filter(id=every_state[state]).exists()
    (line,) = Attempt.objects.filter(delivery_id=every_state[state], outcome="discarded")
    assert line.note.endswith(": too late")


@pytest.mark.parametrize("words", [["park", "--note", "x"], ["discard", "--reason", "x"]])
def test_a_running_delivery_is_neither_parked_nor_discarded(run, every_state, words):
    with pytest.raises(CommandError, match=r"it is running on .*; wait until that has ended"):
        run(words[0], every_state["running"], *words[1:])
    assert Delivery.objects.filter(id=every_state["running"]).exists()


def test_orphaned_deliveries_are_discarded_together(run, every_state):
    assert run("discard", "--state", "orphaned", "--handler", "orphaned", "--reason", "gone") == "1 discarded.\n"
    assert not Delivery.objects.orphaned().exists()


def test_deliveries_are_discarded_with_a_reason(run, dead):
    one, two, three = dead
    run("park", one, "--note", "aside")
    assert json.loads(run("discard", one, two, "--reason", "too old", "--json")) == {
        "discarded": [one, two],
        "left": [],
        "dry_run": False,
    }
    assert list(Delivery.objects.values_list("id", flat=True)) == [three]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["park", "--note", "x"], "Say which ones"),
        (["discard", "--reason", "x"], "Say which ones"),
        (["park", "{first}"], "--note"),
        (["discard", "{first}"], "--reason"),
        (["discard", "{first}", "--reason", " "], "The reason is empty; pass a few words for the history"),
        (["discard", "{first}", "999", "--reason", "x"], "the id 999"),
        (["retry", "--all", "--rate", "no"], "'no' is not a number above 0"),
        (["retry", "--since", "soon"], "--since"),
        (["retry", "--state", "asleep"], "invalid choice: 'asleep'"),
        (["retry", "--handler", "it", "--destination", "bus"], "not allowed with argument"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(run, dead, words, problem):
    with pytest.raises(CommandError, match=problem):
        run(*(word.format(first=dead[0]) for word in words))
    assert Delivery.objects.dead().count() == 3


def test_a_dry_run_of_park_and_discard_changes_nothing(run, dead):
    assert run("park", dead[0], "--note", "x", "--dry-run").startswith("1 would be parked.\n")
    assert run("discard", "--type", "a.*", "--reason", "x", "--dry-run").startswith("3 would be discarded.")
    assert Delivery.objects.dead().count() == 3


# Names


@pytest.mark.parametrize("words", [*ALL, ["blocked"]])
def test_a_handler_that_nobody_knows_is_refused_with_a_hint(run, dead, words):
    with pytest.raises(CommandError, match="No handler is called 'othr'; did you mean 'other'"):
        run(*words, "--handler", "othr")
    assert Delivery.objects.dead().count() == 3


@pytest.mark.parametrize("words", ALL)
@pytest.mark.parametrize(("given", "near"), [("order.piad", "order.paid"), ("oder.*", "order.paid"), ("a.bb", "a.b")])
def test_a_type_that_nobody_knows_is_refused_with_a_hint(run, dead, declare, words, given, near):
    declare("order.paid")(type("OrderPaid", (), {}))
    said = f"No event type is like {given!r}, neither a declared one nor that of a delivery; did you mean {near!r}?"
    with pytest.raises(CommandError, match=f"^{re.escape(said)}$"):
        run(*words, "--type", given)
    assert Delivery.objects.dead().count() == 3


@pytest.mark.parametrize("given", ["order.paid", "order.*", "*.paid", "a.shipped", "duebox.delivery.dead", "duebox.*"])
def test_a_type_that_is_known_and_of_which_nothing_failed_is_no_mistake(run, dead, declare, on, given):
    declare("order.paid")(type("OrderPaid", (), {}))
    on("a.shipped", name="third")(lambda event: None)
    assert run("retry", "--type", given) == "0 due now.\n"


@pytest.fixture
def hooks(dead, settings):
    """The first letter is a public event to an endpoint."""
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"}},
    }
    row = WebhookEndpoint.objects.create(organization="7", url="https://example.com/", types=["*"], secret="encrypted")
    event = Event.objects.create(type="public.order.paid", organization="7", occurred_at=timezone.now())
    Delivery.objects.filter(id=dead[0]).update(event_id=event.id, subscriber=f"to:hooks/{row.pk}")
    return row


@pytest.mark.parametrize("given", ["order.paid", "public.order.paid", "order.*", "*.paid", "*"])
def test_for_an_endpoint_the_type_of_a_public_event_may_be_written_without_its_prefix(found, hooks, given):
    for name in ("hooks", f"hooks/{hooks.pk}"):
        assert len(found("list", "--destination", name, "--type", given)) == 1


def test_deliveries_to_a_disabled_endpoint_are_left_where_they_are_with_the_way_out(run, dead, hooks):
    WebhookEndpoint.objects.update(disabled_at=timezone.now())
    first, *rest = dead
    why = f"'to:hooks/{hooks.pk}' is disabled; enable it first: manage.py duebox endpoints enable {hooks.pk}"
    dry = run("retry", "--all", "--dry-run")
    assert dry.startswith("2 would be due now.\n")
    assert f"1 left: {why}.\n" in dry
    with pytest.raises(CommandError, match=re.escape(why)):
        run("retry", first)
    assert json.loads(run("retry", "--all", "--json")) == {
        "retried": rest,
        "left": [{"id": first, "why": why}],
        "dry_run": False,
    }
    assert Delivery.objects.dead().get().id == first
    assert run("park", first, "--note", "x") == "1 parked.\n"
    assert run("discard", first, "--reason", "x") == "1 discarded.\n"


def test_a_destination_is_named_with_or_without_its_prefix(run, found, dead, settings):
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"bus": {"BACKEND": "tests.app.outside.Post"}}}
    assert run("list", "--destination", "bus") == "No deliveries.\n"
    for stored in ("to:bus", "to:bus/part", "to:gone", "to:gone/part"):
        Delivery.objects.filter(id=dead[0]).update(subscriber=stored)
        for name in (stored, stored.removeprefix("to:")):
            assert [each["id"] for each in found("list", "--destination", name)] == [dead[0]]


def test_a_destination_and_a_handler_are_not_mixed_up(run, dead, settings):
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"bus": {"BACKEND": "tests.app.outside.Post"}}}
    with pytest.raises(CommandError, match="'bus' is a destination and not a handler"):
        run("list", "--handler", "bus")
    with pytest.raises(CommandError, match="'it' is a handler and not a destination"):
        run("list", "--destination", "it")
    with pytest.raises(CommandError, match="No destination is called 'buss'; did you mean 'bus'"):
        run("list", "--destination", "buss")
