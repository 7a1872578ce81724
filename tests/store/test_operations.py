from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import duebox
from duebox.dead_letters.fingerprint import WORKER_LOST
from duebox.exceptions import Refused
from duebox.models import Attempt, Delivery, Event, WebhookEndpoint
from duebox.store import deliveries, leases, operations
from duebox.store.deliveries import settle
from duebox.store.operations import Pace
from duebox.store.run_sql import statement
from duebox.testing import drain
from duebox.worker.drain import drain as work
from tests.support import a_lease, analyze, claims_of, ended, eventually, expire

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
    one, two = operations.find("default", states=["dead"])
    assert (one.id, one.event_type, one.subscriber, one.data) == (letters[0].id, "a.b", "it", {"number": 0})
    assert one.error_line == "ValueError: no luck with 0"
    assert two.error_line == "duebox.exceptions.Permanent: no such address"
    assert one.as_dict()["died_at"] == one.died_at.isoformat()
    assert one.event_id == str(letters[0].event_id)


def test_dead_letters_are_found_by_id_type_and_subscriber(letters):
    one, two = (each.id for each in letters)

    def found(**filters):
        return [each.id for each in operations.find("default", **filters)]

    assert found(ids=[two]) == [two]
    assert found(type="a.b") == [one]
    assert found(subscriber="other") == [two]
    assert found(type="a.b", subscriber="other") == []
    assert found(limit=1) == [one]
    counted = [operations.count("default", type=each) for each in (None, "a.b", "a.x")]
    assert counted == [2, 1, 0]


def test_the_history_tells_every_attempt(letters):
    one, _ = operations.find("default", states=["dead"])
    assert [(each["number"], each["outcome"]) for each in one.history("default")] == [(1, "retried"), (2, "dead")]


def test_a_redriven_letter_is_due_again_with_fresh_retries_and_its_past_is_kept(letters):
    one = letters[0].id
    assert operations.retry("default", [one], note="retried by a test").ids == [one]
    row = Delivery.objects.get(id=one)
    assert (row.status, row.attempt, row.rescues, row.lease) == ("pending", 0, 0, None)
    told = list(Attempt.objects.filter(delivery_id=one).order_by("id").values_list("number", "outcome"))
    assert told == [(1, "retried"), (2, "dead"), (0, "redriven")]
    assert Attempt.objects.get(outcome="redriven").note == "retried by a test"


def test_letters_of_a_disabled_endpoint_stay_where_they_are(letters, settings):
    """A worker would throw them away."""
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {alias: {"BACKEND": "tests.app.outside.Post"} for alias in ("hooks", "bus")},
    }
    one, two = (each.id for each in letters)
    endpoint = WebhookEndpoint.objects.create(
        organization="7", url="https://example.com/", types=["*"], secret="encrypted", disabled_at=timezone.now()
    )
    name = f"to:hooks/{endpoint.pk}"
    Delivery.objects.filter(id=one).update(subscriber=name)
    Delivery.objects.filter(id=two).update(subscriber="to:bus/part")
    assert operations.of_disabled("default", [one, two]) == {one: name}
    done = operations.retry("default", [one, two], note="again")
    assert done.ids == [two]
    assert done.left[one].startswith(f"{name!r} is disabled; enable it first")
    assert Delivery.objects.get(id=one).status == "dead"
    WebhookEndpoint.objects.update(disabled_at=None)
    assert operations.of_disabled("default", [one, two]) == {}
    assert operations.retry("default", [one], note="again").ids == [one]


def test_a_letter_that_dies_again_shows_its_last_death(letters):
    operations.retry("default", [letters[0].id], note="again")
    drain(raises=False)
    (one,) = operations.find("default", ids=[letters[0].id])
    deaths = Attempt.objects.filter(delivery_id=one.id, outcome="dead").order_by("id")
    assert len(deaths) == 2
    assert one.died_at == deaths[1].settled_at


def test_a_dead_letter_whose_event_is_gone_can_still_be_listed(letters):
    Event.objects.filter(id=letters[0].event_id).delete()
    one, _ = operations.find("default", states=["dead"])
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
    operations.retry("default", [one.id], note="again")
    back = Delivery.objects.get(id=one.id)
    assert (back.fingerprint, back.died_at) == (None, None)


def test_dead_letters_are_grouped_by_type_subscriber_and_cause(crowd):
    found = {(each.event_type, each.subscriber): each for each in operations.groups("default")}
    assert {key: (each.count, each.error) for key, each in found.items()} == {
        ("crowd.came", "crowded"): (3, "duebox.exceptions.Permanent: no bed for 2"),
        ("crowd.went", "crowded"): (5, "duebox.exceptions.Permanent: no bed for 7"),
        ("crowd.grew", "patient"): (2, "duebox.exceptions.Permanent: never"),
    }
    one = found["crowd.came", "crowded"]
    assert one.fingerprint == found["crowd.went", "crowded"].fingerprint
    assert one.fingerprint != found["crowd.grew", "patient"].fingerprint
    assert one.first_at <= one.last_at
    alike = operations.find("default", type="crowd.came", fingerprint=one.fingerprint)
    assert one.sample in {each.id for each in alike}
    assert one.as_dict()["first_at"] == one.first_at.isoformat()


def test_a_group_is_found_by_its_id_and_holds_the_letters_that_it_counts_and_no_others(crowd):
    found = operations.groups("default")
    assert len({each.id for each in found}) == 3
    for each in found:
        assert operations.group("default", each.id) == each
        letters = operations.find("default", group=each)
        assert len(letters) == each.count
        assert {(letter.event_type, letter.subscriber, letter.group) for letter in letters} == {
            (each.event_type, each.subscriber, each.id)
        }
        assert [one.id for one in operations.groups("default", group=each)] == [each.id]
    assert operations.group("default", found[0].fingerprint) is None
    assert operations.group("default", found[0].id, parked=True) is None


def test_a_group_of_letters_without_an_event_or_a_fingerprint_is_found_too(letters):
    Event.objects.filter(id=letters[0].event_id).delete()
    Delivery.objects.filter(id=letters[1].id).update(fingerprint=None)
    for each in operations.groups("default"):
        assert [letter.group for letter in operations.find("default", group=each)] == [each.id]


def test_a_destination_is_meant_with_its_parts(letters):
    one, two = (each.id for each in letters)
    Delivery.objects.filter(id=one).update(subscriber="to:hooks/1")
    Delivery.objects.filter(id=two).update(subscriber="to:hooks2/1")
    for name in ("to:hooks", "to:hooks/1"):
        assert [each.id for each in operations.find("default", subscriber=name)] == [one]
        assert [each.sample for each in operations.groups("default", subscriber=name)] == [one]


def test_a_letter_that_was_answered_is_told_by_the_first_line_of_the_answer(on):
    @on("a.b", name="it")
    def it(event):
        raise Refused("The answer was 502. <html>\n<h1>Bad Gateway</h1>\n</html>\n", status=502)

    duebox.emit("a.b")
    drain(raises=False)
    (letter,), (group,) = operations.find("default", states=["dead"]), operations.groups("default")
    assert letter.error_line == group.error == "The answer was 502. <html>"


def test_groups_can_be_filtered_and_the_largest_come_first(crowd):
    assert [each.count for each in operations.groups("default", limit=2)] == [5, 3]
    assert {each.event_type for each in operations.groups("default", type="crowd.g*")} == {"crowd.grew"}
    assert sum(each.count for each in operations.groups("default", organization="1")) == 4
    assert operations.groups("default", since=timezone.now() + timedelta(hours=1)) == []
    assert operations.groups("default", parked=True) == []


@pytest.mark.large
def test_a_grouping_reads_neither_the_whole_history_nor_the_rows_that_live(crowd, on):
    on("a.many", name="lazy")(lambda event: None)
    facts = duebox.emit_many(duebox.NewEvent(type="a.many") for _ in range(3000))
    past = {"delivery_id": 0, "subscriber": "it", "number": 1, "outcome": "delivered", "due_at": timezone.now()}
    Attempt.objects.bulk_create(Attempt(event_id=fact.id, **past) for fact in facts)
    with connection.cursor() as cursor:
        analyze("duebox_delivery", "duebox_event", "duebox_attempt")
        sql = statement("delivery_groups")
        nothing = dict.fromkeys(("type", "subscriber", "organization", "fingerprint", "since", "group", "newest"))
        cursor.execute(f"EXPLAIN {sql}", {**nothing, "status": "dead", "limit": 50})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "duebox_delivery_list_dead" in plan
    assert "Seq Scan on duebox_attempt" not in plan
    assert "Seq Scan on duebox_delivery" not in plan


def test_a_rate_spreads_the_moments_at_which_they_become_due(crowd):
    ids = [each for part in operations.batches("default", states=["dead"]) for each in part]
    pace = Pace(rate=2)
    before = timezone.now()
    for part in (ids[:6], ids[6:]):
        assert operations.retry("default", part, note="slowly", pace=pace).ids == part
    due = list(Delivery.objects.order_by("id").values_list("due_at", flat=True))
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(due)]
    assert all(0.3 < gap < 0.7 for gap in gaps)
    assert timedelta(seconds=4) < due[-1] - before < timedelta(seconds=6)


def test_ids_come_in_batches_oldest_first_up_to_a_limit(crowd, monkeypatch):
    monkeypatch.setattr(operations, "BATCH", 3)
    every = list(Delivery.objects.dead().order_by("id").values_list("id", flat=True))
    parts = list(operations.batches("default", states=["dead"]))
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert [each for part in parts for each in part] == every
    assert [each for part in operations.batches("default", states=["dead"], limit=4) for each in part] == every[:4]


def test_a_parked_letter_is_no_longer_counted_and_keeps_its_note(letters):
    one, two = (each.id for each in letters)
    assert operations.park("default", [one], note="parked by ann: asks the supplier").ids == [one]
    assert [each.id for each in operations.find("default", states=["dead"])] == [two]
    (aside,) = operations.find("default", states=["parked"])
    assert (aside.id, aside.note, aside.error_line) == (
        one,
        "parked by ann: asks the supplier",
        "ValueError: no luck with 0",
    )
    assert Delivery.objects.parked().get().id == one
    assert Delivery.objects.with_state().get(id=one).state == "parked"
    assert not Event.objects.pending().exists()
    assert operations.park("default", [one], note="twice").ids == []


def test_a_parked_letter_can_be_redriven_or_discarded(letters):
    one, two = (each.id for each in letters)
    operations.park("default", [one, two], note="later")
    assert operations.retry("default", [one], note="now").ids == [one]
    assert operations.discard("default", [two], note="discarded by ann: too old").ids == [two]
    assert list(Delivery.objects.values_list("id", "status")) == [(one, "pending")]
    assert Attempt.objects.get(delivery_id=two, outcome="discarded").note == "discarded by ann: too old"


@pytest.fixture
def line(on):
    """Three events of one aggregate; the first of them is dead."""
    seen = []

    @on("line.stood", name="ordered", ordered=True)
    def ordered(event):
        if event.data["number"] == 0 and not seen:
            raise duebox.Permanent("not yet")
        seen.append(event.data["number"])

    duebox.emit_many(duebox.NewEvent(type="line.stood", about=("line", 1), data={"number": n}) for n in range(3))
    drain(raises=False)
    assert seen == []
    return seen


def test_a_discarded_head_frees_its_stream(line):
    head = Delivery.objects.dead().get()
    operations.discard("default", [head.id], note="gone")
    drain()
    assert line == [1, 2]


def test_a_parked_head_still_blocks_its_stream_and_goes_first_when_it_is_redriven(line):
    head = Delivery.objects.dead().get()
    operations.park("default", [head.id], note="wait")
    drain()
    assert line == []
    line.append("repaired")
    operations.retry("default", [head.id], note="go")
    drain()
    assert line == ["repaired", 0, 1, 2]


def test_a_head_that_is_redriven_slowly_still_goes_first(line):
    head = Delivery.objects.dead().get()
    line.append("repaired")
    pace = Pace(rate=1)
    pace.took(30)
    operations.retry("default", [head.id], note="in half a minute", pace=pace)
    drain()
    assert line == ["repaired"]
    work(now=timezone.now() + timedelta(minutes=1))
    assert line == ["repaired", 0, 1, 2]


def test_blocked_streams_are_listed_with_their_head_and_the_reason(line, on):
    @on("line.slept", name="sleepy", ordered=True)
    def sleepy(event):
        return duebox.Snooze(timedelta(hours=1))

    duebox.emit_many(duebox.NewEvent(type="line.slept", about=("line", 2)) for _ in range(2))
    duebox.emit("line.slept", about=("line", 3))  # nobody waits behind it
    drain()
    snoozed, dead_one = sorted(deliveries.blocked("default"), key=lambda each: each.why, reverse=True)
    assert (dead_one.subscriber, dead_one.stream, dead_one.why, dead_one.waiting) == ("ordered", "line:1", "dead", 2)
    assert dead_one.head == Delivery.objects.dead().get().id
    assert dead_one.since == Delivery.objects.dead().get().died_at
    assert (snoozed.stream, snoozed.why, snoozed.waiting) == ("line:2", "snoozed", 1)
    assert snoozed.as_dict()["until"] == snoozed.due_at.isoformat()
    assert [each.stream for each in deliveries.blocked("default", subscriber="sleepy")] == ["line:2"]


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


# Beside workers


@pytest.fixture
def pending(on):
    """The id of a delivery that is due to `soon`."""
    on("a.came", name="soon")(lambda event: None)
    duebox.emit("a.came")
    return Delivery.objects.get(subscriber="soon").id


ACTIONS = {
    "retry": lambda id: operations.retry("default", [id], note="now"),
    "park": lambda id: operations.park("default", [id], note="aside"),
    "discard": lambda id: operations.discard("default", [id], note="enough"),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("newcomer", [False, True], ids=["a known worker", "a worker that came meanwhile"])
def test_what_is_claimed_at_the_same_moment_is_left_to_the_worker(elsewhere, pending, action, newcomer):
    """The claim is not committed yet when the action begins, and perhaps not even the lease of the worker."""
    lease = None if newcomer else a_lease()
    row = "INSERT INTO duebox_worker (name, expires_at) VALUES ('new', now() + interval '1 minute') RETURNING id"
    lease = lease or elsewhere.execute(row).fetchone()[0]
    elsewhere.execute("UPDATE duebox_delivery SET lease = %s WHERE id = %s", [lease, pending])
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(in_thread, ACTIONS[action], pending)
        try:
            eventually(waits_for_a_lock)
        finally:
            elsewhere.commit()
        assert "it is running on " in done.result(10).left[pending]
    assert Delivery.objects.get(id=pending).lease == lease
    assert not Attempt.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["park", "discard"])
def test_what_is_being_dealt_with_is_not_claimed(elsewhere, pending, action):
    lease = a_lease()
    with transaction.atomic():
        assert ACTIONS[action](pending).ids == [pending]
        found = elsewhere.execute(
            "SELECT id FROM duebox_delivery WHERE status = 'pending' AND lease IS NULL FOR UPDATE SKIP LOCKED"
        )
        assert found.fetchall() == []
        elsewhere.rollback()
    assert claims_of(lease, "soon") == []


@pytest.mark.parametrize("action", ACTIONS)
def test_what_a_lost_worker_held_can_be_dealt_with_and_its_late_settlement_writes_nothing(pending, action):
    lease = a_lease()
    (mine,) = claims_of(lease, "soon")
    assert "it is running" in ACTIONS[action](pending).left[pending]
    expire(lease)
    assert ACTIONS[action](pending).ids == [pending]
    before = list(Delivery.objects.values()), list(Attempt.objects.values())
    assert settle("default", lease, [ended(mine)]) == {pending}
    assert (list(Delivery.objects.values()), list(Attempt.objects.values())) == before


@pytest.mark.parametrize("action", ["park", "discard"])
def test_what_changed_since_it_was_found_is_left(letters, action):
    one = letters[0].id
    operations.retry("default", [one], note="somebody else was quicker")
    act = getattr(operations, action)
    assert act("default", [one], note="late", states=["dead"]).left == {one: "it is pending by now"}
    operations.discard("default", [one], note="gone")
    assert act("default", [one], note="late", states=["dead"]).left == {one: "it was delivered or discarded meanwhile"}


def test_a_dry_run_says_the_same_and_changes_nothing(letters, pending):
    lease = a_lease()
    claims_of(lease, "soon")
    ids = [*(each.id for each in letters), pending]
    before = list(Delivery.objects.order_by("id").values())
    for act in (operations.retry, operations.park, operations.discard):
        done = act("default", ids, note="perhaps", dry_run=True)
        assert (done.ids, [*done.left]) == (ids[:2], [pending])
    assert list(Delivery.objects.order_by("id").values()) == before


def test_a_delivery_that_is_retried_early_has_all_its_retries_again(on):
    @on("a.came", name="it", retry=duebox.Retry(limit=1, first=3600))
    def it(event):
        raise ValueError("not yet")

    duebox.emit("a.came")
    for _ in range(3):
        drain(raises=False)
        row = Delivery.objects.with_state().get()
        assert (row.state, row.attempt) == ("retrying", 1)
        assert operations.retry("default", [row.id], note="now").ids == [row.id]
    told = list(Attempt.objects.order_by("id").values_list("outcome", flat=True))
    assert told == ["retried", "redriven"] * 3


def test_a_discarded_delivery_in_the_middle_of_a_stream_does_not_stop_it(line):
    one, two, _ = Delivery.objects.order_by("id").values_list("id", flat=True)
    assert operations.discard("default", [two], note="no").ids == [two]
    operations.discard("default", [one], note="no")
    drain()
    assert line == [2]


@pytest.mark.parametrize("state", ["due", "scheduled", "dead", "parked"])
@pytest.mark.large
def test_a_page_of_a_state_is_read_from_an_index(crowd, on, state):
    """However many deliveries there are in other states."""
    on("a.many", name="lazy")(lambda event: None)
    duebox.emit_many(duebox.NewEvent(type="a.many") for _ in range(3000))
    later = Delivery.objects.filter(subscriber="lazy").order_by("id").values_list("id", flat=True)
    Delivery.objects.filter(id__in=list(later[100:])).update(due_at=timezone.now() + timedelta(days=1))
    analyze("duebox_delivery")
    with CaptureQueriesContext(connection) as caught:
        operations.find("default", states=[state], limit=20)
    reading = [each["sql"] for each in caught if 'FROM "duebox_delivery"' in each["sql"]]
    assert len(reading) == (1 if state in ("dead", "parked") else 2)
    with connection.cursor() as cursor:
        for sql in reading:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Seq Scan" not in plan, plan


def in_thread(act, id):
    try:
        return act(id)
    finally:
        connection.close()


def waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        return cursor.rowcount
