from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from django.db import Error, connection, transaction

import duebox
from duebox.audit_log import verify
from duebox.audit_log.seal import seal_all
from duebox.exceptions import InvalidErasure
from duebox.models import Attempt, AuditEntry, AuditErasure, Delivery, Event, Schedule, ScheduleLog
from duebox.retention import erase
from duebox.testing import travel
from duebox.worker.drain import drain

pytestmark = pytest.mark.django_db
ANN = ("shop.customer", 42)
SECRET = "ann@example.org"


@pytest.fixture(autouse=True)
def handled(declare, on):
    declare("customer.changed")(type("CustomerChanged", (), {"__annotations__": {"email": str}}))

    @on("customer.changed", name="erase.handler")
    def handler(event):
        if event.data["email"] == "bad":
            raise duebox.Permanent(f"cannot write to {SECRET}")


def changed(email=SECRET, about=ANN):
    return duebox.emit("customer.changed", {"email": email}, about=about, metadata={"by": email}, actor="42")


def everything():
    """All that is stored, as text."""
    tables = ("event", "attempt", "delivery", "schedule", "schedule_log", "audit", "task")
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT row_to_json(t)::text FROM duebox_{name} t" for name in tables))
        return "\n".join(row[0] for row in cursor.fetchall())


def test_payloads_go_and_the_events_stay():
    changed()
    other = changed("bob@example.org", about=("shop.customer", 7))
    drain()
    done = erase(ANN)
    assert (done.entity, done.events) == ("shop.customer:42", 1)
    row = Event.objects.about(*ANN).get()
    assert (row.data, row.actor, set(row.metadata)) == ({}, None, {"duebox.payload_removed_at"})
    assert Event.objects.get(id=other.id).data == {"email": "bob@example.org"}
    assert SECRET not in everything()


def test_error_texts_go_with_force_and_the_dead_letter_with_them():
    changed("bad")
    drain()
    with pytest.raises(InvalidErasure, match="1 open deliveries and 0 live schedules"):
        erase(ANN)
    assert SECRET in everything()
    done = erase(ANN, force=True)
    assert (done.events, done.deliveries) == (1, 1)
    assert not Delivery.objects.exists()
    assert set(Attempt.objects.values_list("note", flat=True)) == {""}
    assert SECRET not in everything()


def test_schedules_go_when_they_have_ended_and_live_ones_with_force():
    with travel(datetime(2026, 3, 1, tzinfo=UTC)) as trip:
        for day, key in ((2, "first"), (30, "later")):
            at = datetime(2026, 3, day, 9)
            duebox.schedule("customer.changed", {"email": SECRET}, about=ANN, at=at, zone="UTC", key=key)
        trip.run(timedelta(days=3))
        with pytest.raises(InvalidErasure, match="1 live schedules"):
            erase(ANN)
        done = erase(ANN, force=True)
    assert (done.events, done.schedules) == (1, 2)
    assert not Schedule.objects.exists()
    assert not ScheduleLog.objects.exists()
    assert SECRET not in everything()


def test_a_schedule_that_was_opted_out_of_is_remembered_without_its_data():
    with travel(datetime(2026, 3, 1, tzinfo=UTC)):
        at = datetime(2026, 3, 2, 9)
        duebox.schedule("customer.changed", {"email": SECRET}, about=ANN, at=at, zone="UTC", key="k")
        duebox.cancel("k")
        Schedule.objects.update(opt_out="key")
        erase(ANN)
    row = Schedule.objects.get()
    assert (row.key, row.opt_out, row.data) == ("k", "key", {})


def audited():
    duebox.audit("customer.changed", ANN, changes={"email": (None, SECRET)}, reason=SECRET, actor="9")
    duebox.audit("customer.changed", ("shop.customer", 7), changes={"email": ("a", "b")})


def test_values_of_audit_entries_go_and_the_chain_is_still_verified():
    audited()
    done = erase(ANN)
    assert (done.audit_entries, done.unsealed) == (1, 0)
    first = AuditEntry.objects.about(*ANN).earliest("id")
    assert first.changes == {"email": [None, "(erased)"]}
    assert (first.metadata, first.actor["id"]) == ({"reason": "(erased)"}, "9")
    assert SECRET not in everything()
    seal_all("default")
    found = verify("default")
    assert (found.flaws, found.entries) == (0, 3)


def test_a_record_stays_of_who_erased_how_much():
    audited()
    erase(ANN, actor="admin", reason="request 17")
    entry = AuditEntry.objects.about(*ANN).get(action="duebox.erased")
    assert entry.actor["id"] == "admin"
    assert (entry.metadata["audit_entries"], entry.metadata["reason"]) == (1, "request 17")
    erase(ANN)
    entry.refresh_from_db()
    assert entry.metadata["reason"] == "request 17", "the record itself is never erased"
    assert AuditEntry.objects.filter(action="duebox.erased").count() == 1, "nothing was left to erase"


def test_a_change_of_an_erased_entry_is_found():
    audited()
    erase(ANN)
    tamper("UPDATE duebox_audit SET changes = '{\"email\": [null, \"eve\"]}' WHERE action = 'customer.changed' "
           "AND entity_id = '42'")  # fmt: skip
    assert verify("default").first.what == "is not as it was written"


def test_an_erasure_without_the_key_of_the_log_is_found():
    audited()
    seal_all("default")
    tamper("UPDATE duebox_audit SET changes = '{}' WHERE entity_id = '42'")
    entry = AuditEntry.objects.about(*ANN).get()
    AuditErasure.objects.create(entry_id=entry.id, hash=bytes(32))
    assert verify("default").first.what == "is not as it was written"


def test_an_entry_that_was_changed_before_it_was_erased_stays_a_flaw():
    audited()
    seal_all("default")
    tamper("UPDATE duebox_audit SET changes = '{\"email\": [null, \"eve\"]}' WHERE entity_id = '42'")
    assert erase(ANN).audit_entries == 1
    assert verify("default").first.what == "is not as it was written"


def tamper(sql):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL duebox.allows = 'erase'")
        cursor.execute(sql)
        cursor.execute("SET LOCAL duebox.allows = ''")


def test_afterwards_nothing_can_be_changed_as_before():
    changed()
    drain()
    with transaction.atomic():
        erase(ANN)
        with pytest.raises(Error, match="append-only"), transaction.atomic():
            Event.objects.update(type="other.thing")


def test_a_dry_run_counts_and_changes_nothing():
    changed("bad")
    drain()
    audited()
    done = erase(ANN, dry_run=True)
    assert (done.events, done.deliveries, done.audit_entries) == (1, 1, 1)
    assert SECRET in everything()


def test_a_role_that_may_not_change_the_log_is_told_and_nothing_is_erased():
    changed()
    drain()
    audited()
    seal_all("default")
    role = f"duebox_eraser_{os.getpid()}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role} NOSUPERUSER NOLOGIN")
        cursor.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        cursor.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
        cursor.execute(f"REVOKE UPDATE ON duebox_audit FROM {role}")
        cursor.execute(f"SET LOCAL ROLE {role}")
        with pytest.raises(InvalidErasure, match="permission denied for table duebox_audit; use a role"):
            erase(ANN)
        cursor.execute("RESET ROLE")
    assert SECRET in everything()


def test_nothing_is_erased_without_an_entity():
    with pytest.raises(InvalidErasure, match="entity is None"):
        erase(None)


@pytest.mark.parametrize("id", ["writer", "head", "entries"])
def test_what_the_audit_log_records_about_itself_is_not_erased(id):
    """Without it the log could not be verified."""
    with pytest.raises(InvalidErasure, match=f"audit:{id} is what the audit log records about itself"):
        erase(("audit", id))
