from __future__ import annotations

import logging
import time

import pytest

import duebox
from duebox.models import AuditSeal, AuditWriter
from tests.audit_log.support import entries, flaw, found, write_some
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_seals_what_is_committed_without_being_asked(hire):
    hire()
    duebox.audit("member.removed", ("member", 1))
    eventually(lambda: AuditSeal.objects.count() == 1)
    assert (found().entries, flaw()) == (1, None)


def test_how_often_it_looks_is_a_setting(hire, settings):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_SEAL_SECONDS": 0.05}
    hire()
    for number in range(5):
        write_some(3)
        eventually(lambda number=number: AuditSeal.objects.count() == 3 * (number + 1))
    assert flaw() is None


def test_a_worker_that_stops_seals_what_is_left(hire, settings):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_SEAL_SECONDS": 60.0}
    worker = hire()
    eventually(lambda: worker.lease.id)
    time.sleep(0.5)  # it has looked once
    write_some(2)
    worker.audit.stop()
    worker.audit.thread.join(5)
    assert AuditSeal.objects.count() == 2


def test_two_workers_make_one_chain(hire, settings):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_SEAL_SECONDS": 0.01}
    hire()
    hire()
    for _ in range(30):
        write_some(3)
    eventually(lambda: AuditSeal.objects.count() == 90)
    assert (found().entries, flaw()) == (90, None)


def test_a_head_that_was_changed_is_an_error_in_the_log_and_the_worker_goes_on(hire, settings, caplog, elsewhere):
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_SEAL_SECONDS": 0.05}
    worker = hire()
    write_some(1)
    eventually(lambda: AuditSeal.objects.count() == 1)
    elsewhere.execute("UPDATE duebox_audit_head SET signature = ''")
    elsewhere.commit()
    with caplog.at_level(logging.ERROR, "duebox.audit"):
        write_some(1)
        eventually(lambda: any("nothing is sealed until it is accepted" in each for each in caplog.messages))
    assert not hasattr(entries()[1], "seal")
    assert worker.lease.id


def test_writers_of_ended_sessions_are_forgotten(hire, settings, tune, elsewhere):
    tune(forget_writers_seconds=0.0)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_SEAL_SECONDS": 0.05}
    write_some(1)
    elsewhere.execute("UPDATE duebox_audit_writer SET process_id = 99999999")
    elsewhere.commit()
    hire()
    eventually(lambda: not AuditWriter.objects.exists())
    assert (found().entries, flaw()) == (1, None)
