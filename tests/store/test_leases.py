from __future__ import annotations

import logging
import os
import threading
import time
from datetime import timedelta

import psycopg
import pytest
from django.utils import timezone

import duebox
from duebox.models import Attempt, Delivery, Worker
from duebox.store import leases
from duebox.store.deliveries import promote, settle
from duebox.store.run_sql import database_time, statement
from tests.support import a_lease, claims_of, connection_params, ended, eventually, expire

pytestmark = pytest.mark.django_db


@pytest.fixture
def it(on):
    on("a.b", name="it")(lambda event: None)
    on("a.c", name="in.order", ordered=True)(lambda event: None)
    on("a.d", name="skipping", ordered=True, on_dead="skip")(lambda event: None)


def rescue(limit=3, **options):
    return leases.rescue("default", limit, **options)


def lose(*, suspect=None, limit=3):
    """A worker claims everything, says which one it suspects, and is lost."""
    lease = a_lease()
    claims = claims_of(lease, "it", "in.order", "skipping")
    leases.announce_suspect("default", lease, suspect)
    expire(lease)
    rescue(limit)
    return claims


def test_a_lease_is_a_row_with_the_name_of_the_process():
    lease = leases.take("default", 10)
    row = Worker.objects.get(id=lease)
    assert row.name.endswith(f":{os.getpid()}")
    assert (row.mode, row.listening, row.suspect) == ("poll", False, None)
    assert 9 < (row.expires_at - row.beat_at).total_seconds() <= 10


def test_the_time_of_the_database_is_seconds_since_1970():
    assert abs(database_time("default") - time.time()) < 5


def test_a_heartbeat_prolongs_the_lease():
    lease = a_lease(seconds=5)
    before = Worker.objects.get(id=lease).expires_at
    assert leases.renew("default", lease, 60)
    assert Worker.objects.get(id=lease).expires_at > before


def test_a_lease_that_ran_out_cannot_be_had_back():
    lease = a_lease()
    expire(lease)
    assert not leases.renew("default", lease, 60)


def test_the_mode_is_visible_in_the_row():
    lease = a_lease()
    leases.set_mode("default", lease, mode="listen", listening=True)
    row = Worker.objects.get(id=lease)
    assert (row.mode, row.listening) == ("listen", True)


def test_a_dropped_lease_is_gone():
    leases.drop("default", a_lease())
    assert not Worker.objects.exists()


def test_nothing_is_rescued_from_the_living(it):
    duebox.emit("a.b")
    claims_of(a_lease(), "it")
    assert rescue() == 0
    assert rescue(always=True) == 0
    assert Delivery.objects.get().lease is not None


def test_what_a_lost_worker_held_is_free_again(it, caplog):
    caplog.set_level(logging.INFO, logger="duebox.worker")
    fact = duebox.emit("a.b")
    lease = a_lease()
    claims_of(lease, "it")
    expire(lease)
    assert rescue() == 1
    row, told = Delivery.objects.get(), Attempt.objects.get()
    assert (row.lease, row.attempt, row.rescues, row.status) == (None, 0, 1, "pending")
    assert (told.outcome, told.note) == ("rescued", "The worker that held it was lost.")
    assert not Worker.objects.exists()
    assert f"worker lost: lease={lease}" in caplog.text
    assert f"rescued: delivery={row.id} event_id={fact.id} subscriber=it now=pending" in caplog.text


def test_a_stale_worker_overwrites_nothing_after_the_rescue(it):
    duebox.emit("a.b")
    stale = a_lease()
    (mine,) = claims_of(stale, "it")
    expire(stale)
    rescue()
    assert settle("default", stale, [ended(mine)]) == {mine.id}
    (theirs,) = claims_of(a_lease(), "it")
    assert settle("default", stale, [ended(mine)]) == {mine.id}
    assert settle("default", theirs.lease, [ended(theirs)]) == set()
    assert list(Attempt.objects.order_by("id").values_list("outcome", flat=True)) == ["rescued", "delivered"]


def test_losses_that_nobody_announced_never_make_a_dead_letter(it):
    duebox.emit_many([duebox.NewEvent(type="a.b")] * 3)
    for _ in range(4):
        lose(limit=2)
    assert list(Delivery.objects.values_list("status", "rescues")) == [("pending", 1)] * 3


def test_only_the_announced_delivery_takes_the_last_step_to_the_dead_letters(it, caplog):
    duebox.emit_many([duebox.NewEvent(type="a.b")] * 3)
    poison = lose()[1].id
    lose(suspect=poison)
    assert set(Delivery.objects.values_list("id", "rescues")) >= {(poison, 2)}
    lose(suspect=poison)
    innocent = Delivery.objects.exclude(id=poison)
    assert list(innocent.values_list("status", "rescues")) == [("pending", 2)] * 2
    row = Delivery.objects.get(id=poison)
    assert (row.status, row.rescues, row.lease) == ("dead", 3, None)
    told = Attempt.objects.filter(delivery_id=poison).latest("id")
    assert told.outcome == "dead"
    assert told.note == "Workers were lost 3 times while running it; it may be the cause."
    assert any(record.levelno == logging.ERROR and f"delivery={poison}" in record.message for record in caplog.records)


def test_a_suspect_that_is_retried_is_a_suspect_no_more(it):
    duebox.emit("a.b")
    lose()
    lease = a_lease()
    (mine,) = claims_of(lease, "it")
    assert mine.rescues == 1
    settle("default", lease, [ended(mine, duebox.events.outcomes.Retried(0, ValueError()))])
    assert Delivery.objects.get().rescues == 0


def test_a_stray_whose_worker_left_no_row_is_found_by_the_hunt(it):
    duebox.emit("a.b")
    lease = a_lease()
    claims_of(lease, "it")
    leases.drop("default", lease)
    assert rescue() == 0
    assert rescue(always=True) == 1
    assert Delivery.objects.get().lease is None


def test_the_rescue_heals_a_stream_whose_worker_died_between_settling_and_promoting(it):
    duebox.emit_many([duebox.NewEvent(type="a.c", about=("x", 1))] * 2)
    lease = a_lease()
    (head,) = claims_of(lease, "in.order")
    settle("default", lease, [ended(head)])
    expire(lease)
    assert claims_of(a_lease(), "in.order") == []
    rescue()
    assert len(claims_of(a_lease(), "in.order")) == 1


def test_a_poison_letter_blocks_its_stream(it):
    duebox.emit_many([duebox.NewEvent(type="a.c", about=("x", 1))] * 2)
    poison = lose()[0].id
    for _ in range(2):
        lose(suspect=poison)
    assert Delivery.objects.get(id=poison).status == "dead"
    assert claims_of(a_lease(), "in.order") == []


def test_a_poison_letter_of_a_skipping_subscriber_lets_the_next_one_pass(it):
    duebox.emit_many([duebox.NewEvent(type="a.d", about=("x", 1))] * 2)
    poison = lose()[0].id
    for _ in range(2):
        lose(suspect=poison)
    assert Delivery.objects.get(id=poison).status == "dead"
    promote("default", {("skipping", "x:1")})
    assert len(claims_of(a_lease(), "skipping")) == 1


@pytest.mark.django_db(transaction=True)
def test_a_rescue_passes_over_a_worker_whose_claim_is_just_being_made(it, elsewhere):
    lease = a_lease()
    expire(lease)
    elsewhere.execute("SELECT 1 FROM duebox_worker WHERE id = %s FOR KEY SHARE", [lease])
    rescue()
    assert Worker.objects.filter(id=lease).exists()
    elsewhere.rollback()
    rescue()
    assert not Worker.objects.filter(id=lease).exists()


@pytest.fixture
def halfway(elsewhere):
    """Runs one of the statements elsewhere, and stops it when it has its snapshot and has locked no row yet. What the
    given function does meanwhile is committed when the statement goes on. Returns the rows of the statement."""
    elsewhere.execute("CREATE SCHEMA halfway")
    elsewhere.execute(
        "CREATE FUNCTION halfway.statement_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_advisory_xact_lock_shared(7079); RETURN pg_catalog.statement_timestamp(); END $$"
    )
    elsewhere.execute("SET search_path = halfway, pg_catalog, public")

    def run(name, params, meanwhile):
        rows = []
        with psycopg.connect(**connection_params(), autocommit=True) as gate:
            gate.execute("SELECT pg_advisory_lock(7079)")
            statement_elsewhere = threading.Thread(
                target=lambda: rows.extend(elsewhere.execute(statement(name), params).fetchall())
            )
            statement_elsewhere.start()
            waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 7079 AND NOT granted"
            eventually(lambda: gate.execute(waits).fetchone())
            meanwhile()
        statement_elsewhere.join(10)
        assert not statement_elsewhere.is_alive()
        elsewhere.execute("DROP SCHEMA halfway CASCADE")
        elsewhere.commit()
        return rows

    return run


RESCUE = {"suspects": [], "skipping": [], "limit": 3, "now": None, "fingerprint": ""}


@pytest.mark.django_db(transaction=True)
def test_a_worker_whose_renewal_is_not_committed_yet_keeps_what_it_holds(it, elsewhere):
    duebox.emit("a.b")
    lease = a_lease(seconds=0.5)
    claims_of(lease, "it")
    elsewhere.execute(statement("lease_renew"), {"lease": lease, "seconds": 60, "probe": False})
    time.sleep(0.6)
    assert not leases.renew("default", a_lease(seconds=0), 60), "others run out"
    assert rescue(always=True) == 0
    elsewhere.commit()
    assert rescue(always=True) == 0
    assert list(Worker.objects.values_list("id", flat=True)) == [lease]
    assert Delivery.objects.get().lease == lease


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_renews_its_lease_while_a_rescue_has_just_begun_keeps_it(halfway):
    lease = a_lease()
    expire(lease)
    later = timezone.now() + timedelta(seconds=60)
    assert halfway("lease_remove_expired", {}, lambda: Worker.objects.update(expires_at=later)) == []
    assert Worker.objects.filter(id=lease).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_new", [False, True])
def test_what_another_worker_claims_while_a_rescue_has_just_begun_stays_with_it(it, halfway, is_new):
    """In the snapshot of the rescue it is an orphan. Another rescue frees it, and it is claimed by a worker that is
    alive, or that has started since."""
    duebox.emit_many([duebox.NewEvent(type="a.b")] * 3)
    lost = a_lease()
    claims_of(lost, "it")
    leases.drop("default", lost)
    alive = [] if is_new else [a_lease()]

    def meanwhile():
        assert rescue(always=True) == 3
        alive.append(a_lease())
        assert len(claims_of(alive[0], "it", limit=2)) == 2

    assert halfway("rescue", RESCUE, meanwhile) == []
    assert sorted(Delivery.objects.values_list("lease", flat=True), key=str) == [alive[0], alive[0], None]
    assert Attempt.objects.filter(outcome="rescued").count() == 3
