from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.utils import timezone

import duebox
from duebox.exceptions import Refused
from duebox.fingerprint import WORKER_LOST
from duebox.models import Attempt, Delivery, Endpoint, Event
from duebox.store import dead, leases, streams
from duebox.store.pace import Pace
from duebox.store.statements import statement
from duebox.testing import drain
from duebox.worker.drain import drain as work
from tests.support import a_lease, claims_of, expire

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters(on):
    """Two dead letters: 'a.b' to it, 'a.c' to other."""

    @on("a.b", name="it", retry=duebox.Retry(limit=1, first=0))
    def it(event):
        raise ValueError(f"no luck with {event.data['number']}")

    @on("a.c", name="other")
    def other(event):
        raise duebox.Permanent("no such address")

    for number, each in enumerate(("a.b", "a.c", "a.seen")):
        duebox.emit(each, {"number": number})
    drain(raises=False)
    return list(Delivery.objects.order_by("id"))


def test_dead_letters_are_found_with_their_event_and_their_error(letters):
    one, two = dead.find("default")
    assert (one.id, one.event_type, one.subscriber, one.data) == (letters[0].id, "a.b", "it", {"number": 0})
    assert one.error_line == "ValueError: no luck with 0"
    assert two.error_line == "duebox.exceptions.Permanent: no such address"
    assert one.as_dict()["died_at"] == one.died_at.isoformat()
    assert one.event_id == str(letters[0].event_id)


def test_dead_letters_are_found_by_id_type_and_subscriber(letters):
    one, two = (each.id for each in letters)

    def found(**filters):
        return [each.id for each in dead.find("default", **filters)]

    assert found(ids=[two]) == [two]
    assert found(type="a.b") == [one]
    assert found(subscriber="other") == [two]
    assert found(type="a.b", subscriber="other") == []
    assert found(limit=1) == [one]
    assert [dead.count("default"), dead.count("default", type="a.b"), dead.count("default", type="a.x")] == [2, 1, 0]


def test_the_history_tells_every_attempt(letters):
    one, _ = dead.find("default")
    assert [(each["number"], each["outcome"]) for each in one.history("default")] == [(1, "retried"), (2, "dead")]


def test_a_redriven_letter_is_due_again_with_fresh_retries_and_its_past_is_kept(letters):
    one = letters[0].id
    assert dead.redrive("default", [one], note="redriven by a test") == [one]
    row = Delivery.objects.get(id=one)
    assert (row.status, row.attempt, row.rescues, row.lease) == ("pending", 0, 0, None)
    told = list(Attempt.objects.filter(delivery_id=one).order_by("id").values_list("number", "outcome"))
    assert told == [(1, "retried"), (2, "dead"), (0, "redriven")]
    assert Attempt.objects.get(outcome="redriven").note == "redriven by a test"


def test_letters_of_a_disabled_endpoint_stay_where_they_are(letters):
    """A worker would throw them away."""
    one, two = (each.id for each in letters)
    endpoint = Endpoint.objects.create(
        organization="7", url="https://example.com/", types=["*"], secret="encrypted", disabled_at=timezone.now()
    )
    name = f"to:hooks/{endpoint.pk}"
    Delivery.objects.filter(id=one).update(subscriber=name)
    Delivery.objects.filter(id=two).update(subscriber="to:bus/part")
    assert dead.of_disabled("default", [one, two]) == {one: name}
    assert dead.redrive("default", [one, two], note="again") == [two]
    assert Delivery.objects.get(id=one).status == "dead"
    Endpoint.objects.update(disabled_at=None)
    assert dead.of_disabled("default", [one, two]) == {}
    assert dead.redrive("default", [one], note="again") == [one]


def test_the_types_of_what_is_dead_or_parked_are_known(letters):
    dead.park("default", [letters[0].id], note="aside")
    duebox.emit("a.b", {"number": 9})
    assert dead.types("default") == {"a.b", "a.c"}
    dead.discard("default", [letters[0].id], note="gone")
    assert dead.types("default") == {"a.c"}


def test_a_letter_that_dies_again_shows_its_last_death(letters):
    dead.redrive("default", [letters[0].id], note="again")
    drain(raises=False)
    (one,) = dead.find("default", ids=[letters[0].id])
    deaths = Attempt.objects.filter(delivery_id=one.id, outcome="dead").order_by("id")
    assert len(deaths) == 2
    assert one.died_at == deaths[1].settled_at


def test_only_dead_letters_can_be_redriven(letters, on):
    on("a.pending", name="slow")(lambda event: None)
    duebox.emit("a.pending")
    pending = Delivery.objects.get(subscriber="slow")
    before = Delivery.objects.filter(id=pending.id).values().get()
    assert dead.redrive("default", [pending.id, 999_999], note="no") == []
    assert Delivery.objects.filter(id=pending.id).values().get() == before


def test_a_dead_letter_whose_event_is_gone_can_still_be_listed(letters):
    Event.objects.filter(id=letters[0].event_id).delete()
    one, _ = dead.find("default")
    assert (one.event_type, one.data) == ("(gone)", {})


@pytest.fixture
def crowd(on):
    """Ten dead letters: three types, two subscribers, two causes."""

    @on("crowd.*", name="crowded")
    def crowded(event):
        if event.data["number"] < 8:
            raise duebox.Permanent(f"no bed for {event.data['number']}")

    @on("crowd.grew", name="patient")
    def patient(event):
        raise duebox.Permanent("never")

    for number in range(8):
        duebox.emit("crowd.came" if number < 3 else "crowd.went", {"number": number}, organization=str(number % 2))
    for _ in range(2):
        duebox.emit("crowd.grew", {"number": 8})
    drain(raises=False)


def test_a_delivery_that_dies_gets_the_fingerprint_of_its_cause_and_one_that_lives_has_none(letters, on):
    one, two = letters
    assert {len(one.fingerprint), len(two.fingerprint)} == {12}
    assert one.fingerprint != two.fingerprint
    death = Attempt.objects.get(delivery_id=one.id, outcome="dead")
    assert one.died_at == death.settled_at
    dead.redrive("default", [one.id], note="again")
    back = Delivery.objects.get(id=one.id)
    assert (back.fingerprint, back.died_at) == (None, None)


def test_dead_letters_are_grouped_by_type_subscriber_and_cause(crowd):
    found = {(each.event_type, each.subscriber): each for each in dead.groups("default")}
    assert {key: (each.count, each.error) for key, each in found.items()} == {
        ("crowd.came", "crowded"): (3, "duebox.exceptions.Permanent: no bed for 2"),
        ("crowd.went", "crowded"): (5, "duebox.exceptions.Permanent: no bed for 7"),
        ("crowd.grew", "patient"): (2, "duebox.exceptions.Permanent: never"),
    }
    one = found["crowd.came", "crowded"]
    assert one.fingerprint == found["crowd.went", "crowded"].fingerprint
    assert one.fingerprint != found["crowd.grew", "patient"].fingerprint
    assert one.first_at <= one.last_at
    assert one.sample in {each.id for each in dead.find("default", type="crowd.came", fingerprint=one.fingerprint)}
    assert one.as_dict()["first_at"] == one.first_at.isoformat()


def test_a_group_is_found_by_its_id_and_holds_the_letters_that_it_counts_and_no_others(crowd):
    found = dead.groups("default")
    assert len({each.id for each in found}) == 3
    for each in found:
        assert dead.group("default", each.id) == each
        letters = dead.find("default", group=each)
        assert len(letters) == each.count
        assert {(letter.event_type, letter.subscriber, letter.group) for letter in letters} == {
            (each.event_type, each.subscriber, each.id)
        }
        assert [one.id for one in dead.groups("default", group=each)] == [each.id]
    assert dead.group("default", found[0].fingerprint) is None
    assert dead.group("default", found[0].id, parked=True) is None


def test_a_group_of_letters_without_an_event_or_a_fingerprint_is_found_too(letters):
    Event.objects.filter(id=letters[0].event_id).delete()
    Delivery.objects.filter(id=letters[1].id).update(fingerprint=None)
    for each in dead.groups("default"):
        assert [letter.group for letter in dead.find("default", group=each)] == [each.id]


def test_a_destination_is_meant_with_its_parts(letters):
    one, two = (each.id for each in letters)
    Delivery.objects.filter(id=one).update(subscriber="to:hooks/1")
    Delivery.objects.filter(id=two).update(subscriber="to:hooks2/1")
    for name in ("to:hooks", "to:hooks/1"):
        assert [each.id for each in dead.find("default", subscriber=name)] == [one]
        assert [each.sample for each in dead.groups("default", subscriber=name)] == [one]


def test_a_letter_that_was_answered_is_told_by_the_first_line_of_the_answer(on):
    @on("a.b", name="it")
    def it(event):
        raise Refused("The answer was 502. <html>\n<h1>Bad Gateway</h1>\n</html>\n", status=502)

    duebox.emit("a.b")
    drain(raises=False)
    (letter,), (group,) = dead.find("default"), dead.groups("default")
    assert letter.error_line == group.error == "The answer was 502. <html>"


def test_groups_can_be_filtered_and_the_largest_come_first(crowd):
    assert [each.count for each in dead.groups("default", limit=2)] == [5, 3]
    assert {each.event_type for each in dead.groups("default", type="crowd.g*")} == {"crowd.grew"}
    assert sum(each.count for each in dead.groups("default", organization="1")) == 4
    assert dead.groups("default", since=timezone.now() + timedelta(hours=1)) == []
    assert dead.groups("default", parked=True) == []


def test_a_grouping_reads_neither_the_whole_history_nor_the_rows_that_live(crowd, on):
    on("a.many", name="lazy")(lambda event: None)
    facts = duebox.emit_many(duebox.New(type="a.many") for _ in range(3000))
    past = {"delivery_id": 0, "subscriber": "it", "number": 1, "outcome": "delivered", "due_at": timezone.now()}
    Attempt.objects.bulk_create(Attempt(event_id=fact.id, **past) for fact in facts)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE duebox_delivery, duebox_event, duebox_attempt")
        sql = statement("dead_groups")
        nothing = dict.fromkeys(("type", "subscriber", "organization", "fingerprint", "since", "group"))
        cursor.execute(f"EXPLAIN {sql}", {**nothing, "status": "dead", "limit": 50})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "duebox_delivery_list_dead" in plan
    assert "Seq Scan on duebox_attempt" not in plan
    assert "Seq Scan on duebox_delivery" not in plan


def test_a_rate_spreads_the_moments_at_which_they_become_due(crowd):
    ids = [each for part in dead.batches("default") for each in part]
    pace = Pace(rate=2)
    before = timezone.now()
    for part in (ids[:6], ids[6:]):
        assert dead.redrive("default", part, note="slowly", pace=pace) == part
    due = list(Delivery.objects.order_by("id").values_list("due_at", flat=True))
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(due)]
    assert all(0.3 < gap < 0.7 for gap in gaps)
    assert timedelta(seconds=4) < due[-1] - before < timedelta(seconds=6)


def test_ids_come_in_batches_oldest_first_up_to_a_limit(crowd, monkeypatch):
    monkeypatch.setattr(dead, "BATCH", 3)
    every = list(Delivery.objects.dead().order_by("id").values_list("id", flat=True))
    parts = list(dead.batches("default"))
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert [each for part in parts for each in part] == every
    assert [each for part in dead.batches("default", limit=4) for each in part] == every[:4]


def test_a_parked_letter_is_no_longer_counted_and_keeps_its_note(letters):
    one, two = (each.id for each in letters)
    assert dead.park("default", [one], note="parked by ann: asks the supplier") == [one]
    assert [each.id for each in dead.find("default")] == [two]
    (aside,) = dead.find("default", statuses=["parked"])
    assert (aside.id, aside.note, aside.error_line) == (
        one,
        "parked by ann: asks the supplier",
        "ValueError: no luck with 0",
    )
    assert Delivery.objects.parked().get().id == one
    assert Delivery.objects.with_state().get(id=one).state == "parked"
    assert not Event.objects.pending().exists()
    assert dead.park("default", [one], note="twice") == []


def test_a_parked_letter_can_be_redriven_or_discarded(letters):
    one, two = (each.id for each in letters)
    dead.park("default", [one, two], note="later")
    assert dead.redrive("default", [one], note="now") == [one]
    assert dead.discard("default", [two], note="discarded by ann: too old") == [two]
    assert list(Delivery.objects.values_list("id", "status")) == [(one, "pending")]
    assert Attempt.objects.get(delivery_id=two, outcome="discarded").note == "discarded by ann: too old"


def test_only_dead_and_parked_letters_can_be_discarded(letters, on):
    on("a.pending", name="slow")(lambda event: None)
    duebox.emit("a.pending")
    pending = Delivery.objects.get(subscriber="slow")
    assert dead.discard("default", [pending.id], note="no") == []
    assert dead.park("default", [pending.id], note="no") == []
    assert Delivery.objects.filter(id=pending.id, status="pending").exists()


@pytest.fixture
def line(on):
    """Three events of one aggregate; the first of them is dead."""
    seen = []

    @on("line.stood", name="ordered", ordered=True)
    def ordered(event):
        if event.data["number"] == 0 and not seen:
            raise duebox.Permanent("not yet")
        seen.append(event.data["number"])

    duebox.emit_many(duebox.New(type="line.stood", about=("line", 1), data={"number": n}) for n in range(3))
    drain(raises=False)
    assert seen == []
    return seen


def test_a_discarded_head_frees_its_stream(line):
    head = Delivery.objects.dead().get()
    dead.discard("default", [head.id], note="gone")
    drain()
    assert line == [1, 2]


def test_a_parked_head_still_blocks_its_stream_and_goes_first_when_it_is_redriven(line):
    head = Delivery.objects.dead().get()
    dead.park("default", [head.id], note="wait")
    drain()
    assert line == []
    line.append("repaired")
    dead.redrive("default", [head.id], note="go")
    drain()
    assert line == ["repaired", 0, 1, 2]


def test_a_head_that_is_redriven_slowly_still_goes_first(line):
    head = Delivery.objects.dead().get()
    line.append("repaired")
    pace = Pace(rate=1)
    pace.took(30)
    dead.redrive("default", [head.id], note="in half a minute", pace=pace)
    drain()
    assert line == ["repaired"]
    work(now=timezone.now() + timedelta(minutes=1))
    assert line == ["repaired", 0, 1, 2]


def test_blocked_streams_are_listed_with_their_head_and_the_reason(line, on):
    @on("line.slept", name="sleepy", ordered=True)
    def sleepy(event):
        return duebox.Snooze(timedelta(hours=1))

    duebox.emit_many(duebox.New(type="line.slept", about=("line", 2)) for _ in range(2))
    duebox.emit("line.slept", about=("line", 3))  # nobody waits behind it
    drain()
    snoozed, dead_one = sorted(streams.blocked("default"), key=lambda each: each.why, reverse=True)
    assert (dead_one.subscriber, dead_one.stream, dead_one.why, dead_one.waiting) == ("ordered", "line:1", "dead", 2)
    assert dead_one.head == Delivery.objects.dead().get().id
    assert dead_one.since == Delivery.objects.dead().get().died_at
    assert (snoozed.stream, snoozed.why, snoozed.waiting) == ("line:2", "snoozed", 1)
    assert snoozed.as_dict()["until"] == snoozed.due_at.isoformat()
    assert [each.stream for each in streams.blocked("default", subscriber="sleepy")] == ["line:2"]


def test_a_delivery_that_kills_workers_has_a_fingerprint_of_its_own(on):
    on("a.poison", name="poisoned")(lambda event: None)
    duebox.emit("a.poison")
    for _ in range(2):
        lease = a_lease()
        (mine,) = claims_of(lease, "poisoned")
        leases.announce_suspect("default", lease, mine.id)
        expire(lease)
        leases.rescue("default", 2)
    row = Delivery.objects.get()
    assert (row.status, row.fingerprint, row.died_at is not None) == ("dead", WORKER_LOST, True)
