from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from duebox import checks
from duebox.observe import doctor
from duebox.observe.doctor import examine
from duebox.store.database_state import Server
from tests.support import a_lease

pytestmark = pytest.mark.django_db
quick = pytest.mark.usefixtures("_without_checks")
FINE = Server("18.0", 180_000, 1, 0.0, True, None, None, None, None, None)


@pytest.fixture
def _without_checks(monkeypatch):
    """The system checks find nothing; those of zones take a second."""
    monkeypatch.setattr(doctor, "run_checks", lambda **options: [])


def findings(topic):
    return [(each.level, each.value) for each in examine() if each.topic == topic]


def sql(text):
    with connection.cursor() as cursor:
        cursor.execute(text)


def test_a_fresh_database_has_no_errors_and_every_topic_is_looked_at(capturing):
    found = examine()
    # A server for tests may be run without autovacuum, which the doctor rightly calls an error.
    assert [each for each in found if each.level == "error" and each.fact != "Autovacuum is off"] == []
    topics = {"migrations", "settings", "zones", "triggers", "server", "clock", "pooler", "transactions", "storage"}
    assert topics | {"indexes", "dead rows", "workers", "checks"} <= {each.topic for each in found}
    assert next(each for each in found if each.topic == "storage").level == "ok", "as the migrations set them"
    assert all(each.repair for each in found if each.level != "ok")


@quick
def test_a_storage_parameter_that_was_changed_is_named_with_its_repair():
    sql("ALTER TABLE duebox_delivery SET (fillfactor = 100)")
    [found] = [each for each in examine() if each.topic == "storage"]
    assert (found.level, found.value) == ("warning", "duebox_delivery.fillfactor=100")
    assert found.repair == "Run: ALTER TABLE duebox_delivery SET (fillfactor = 50)"


@quick
def test_a_disabled_trigger_is_an_error():
    sql("ALTER TABLE duebox_event DISABLE TRIGGER duebox_event_is_immutable")
    assert ("error", "duebox_event_is_immutable on duebox_event") in findings("triggers")


@quick
def test_an_invalid_index_is_an_error():
    sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'duebox_event_about'::regclass")
    assert findings("indexes") == [("error", "duebox_event_about")]


@quick
def test_no_worker_is_a_warning_and_a_living_one_is_not():
    assert findings("workers") == [("warning", "0")]
    a_lease()
    assert findings("workers") == [("ok", "1")]
    assert findings("listeners") == [("warning", "0")]


def test_a_missing_migration_is_an_error_and_ends_the_examination(monkeypatch):
    monkeypatch.setattr(checks, "_probes", lambda database: [])
    monkeypatch.setattr(checks, "disagreements", lambda *given: [])
    sql("DELETE FROM django_migrations WHERE app = 'duebox' AND name = '0001_initial'")
    found = examine()
    assert [each.level for each in found if each.topic == "migrations"] == ["error"]
    assert "workers" not in {each.topic for each in found}


def test_a_wrong_setting_is_an_error(settings, monkeypatch):
    monkeypatch.setattr(checks, "_probes", lambda database: [])
    monkeypatch.setattr(checks, "disagreements", lambda *given: [])
    settings.DUEBOX = {**settings.DUEBOX, "RETENTION_EVENTS_DAYS": 0}
    [found] = [each for each in examine() if each.topic == "settings"]
    assert (found.level, found.fact) == ("error", "DUEBOX['RETENTION_EVENTS_DAYS'] is 0.")


@quick
def test_what_the_server_says_is_judged(monkeypatch):
    def judged(**state):
        monkeypatch.setattr(doctor, "server", lambda using: FINE._replace(**state))
        return {each.topic: each.level for each in examine() if each.level != "ok"}

    assert "server" not in judged()
    assert judged(number=140_012)["server"] == "error"
    assert judged(autovacuum=False)["server"] == "error"
    assert judged(skew_seconds=-2.0)["clock"] == "warning"
    assert judged(skew_seconds=90.0)["clock"] == "error"
    assert judged(is_pooled=True)["pooler"] == "warning"
    assert judged(longest_seconds=301.0, longest_pid=7)["transactions"] == "warning"
    assert judged(oldest_age=20_000_000, oldest_holder="replication slot x")["transactions"] == "warning"


@quick
def test_the_command_lists_findings_and_fails_only_with_an_error(monkeypatch):
    monkeypatch.setattr(doctor, "server", lambda using: FINE)
    out = StringIO()
    call_command("duebox", "doctor", stdout=out)
    assert "ok       server        PostgreSQL is supported (" in out.getvalue()
    assert "Start one: manage.py duebox worker" in out.getvalue()
    sql("ALTER TABLE duebox_event DISABLE TRIGGER duebox_event_is_immutable")
    out = StringIO()
    with pytest.raises(CommandError, match="1 error"):
        call_command("duebox", "doctor", "--json", stdout=out)
    assert {"topic", "level", "fact", "value", "repair"} == set(json.loads(out.getvalue().splitlines()[0]))
