from __future__ import annotations

import threading
import time

import pytest
from django.db import OperationalError, connections
from django.db.utils import Error

from duebox.worker.connections import own_connection
from duebox.worker.maintenance import start_maintenance
from duebox.worker.watchdog import Watchdog, limited
from tests.support import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def shown(name):
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]


def test_a_thread_has_a_connection_of_its_own_and_gets_its_former_one_back():
    before = connections["default"]
    with own_connection("default", Watchdog(), "it"):
        own = connections["default"]
        assert own is not before
        assert own.settings_dict["OPTIONS"]["connect_timeout"] == 5
        assert shown("statement_timeout") == "0"
    assert connections["default"] is before
    assert own.connection is None


def test_what_the_options_of_the_database_say_wins(monkeypatch):
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", {"connect_timeout": 9, "pool": True})
    with own_connection("default", Watchdog(), "it"):
        options = connections["default"].settings_dict["OPTIONS"]
        assert (options["connect_timeout"], options["keepalives"]) == (9, 1)
        assert "pool" not in options


def test_the_server_ends_a_transaction_of_the_engine_whose_worker_is_frozen():
    with own_connection("default", Watchdog(), "it", engine=True):
        assert shown("idle_in_transaction_session_timeout") == "1min"
        assert shown("statement_timeout") == "30s"
        assert shown("default_transaction_isolation") == "read committed"


def test_tighter_limits_of_the_project_are_left_alone(monkeypatch):
    options = {"options": "-c statement_timeout=2000"}
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", options)
    with own_connection("default", Watchdog(), "it", engine=True):
        assert shown("statement_timeout") == "2s"


def test_a_statement_that_gets_no_answer_within_its_limit_is_ended():
    watchdog = Watchdog()
    watchdog.start()
    started = time.monotonic()
    try:
        with own_connection("default", watchdog, "it"):
            connections["default"].ensure_connection()
            with pytest.raises(OperationalError), limited(0.5), connections["default"].cursor() as cursor:
                cursor.execute("SELECT pg_sleep(20)")
    finally:
        watchdog.stop()
    assert time.monotonic() - started < 10


def test_the_session_of_a_connection_that_was_closed_is_ended_on_the_server_and_frees_its_locks():
    """As where the network has lost the connection: the server waits for a client that is gone."""
    watchdog = Watchdog()
    with own_connection("default", watchdog, "handler"):
        lost = lock_in_open_transaction(7077)
        watchdog._closed.append((lost.connection.info.backend_pid, lost.connected_at))
        with own_connection("default", watchdog, "heartbeat", engine=True):
            assert not is_free(7077)
            watchdog.close_silent("default", 60)
            eventually(lambda: is_free(7077))
        assert watchdog._closed == []


def test_a_younger_session_that_has_the_process_id_of_a_closed_one_is_left_alone():
    watchdog = Watchdog()
    with own_connection("default", watchdog, "handler"):
        other = lock_in_open_transaction(7078)
        watchdog._closed.append((other.connection.info.backend_pid, other.connected_at - 60))
        with own_connection("default", watchdog, "heartbeat", engine=True):
            watchdog.close_silent("default", 60)
            time.sleep(0.2)
            assert not is_free(7078)
        assert watchdog._closed == []


def lock_in_open_transaction(lock):
    connection = connections["default"]
    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock])
    return connection


def is_free(lock):
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock])
        return cursor.fetchone()[0]


def test_over_tcp_the_server_notices_within_half_a_minute_that_this_host_is_gone():
    with own_connection("default", Watchdog(), "it"):
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT inet_client_addr() IS NULL")
            by_unix_socket = cursor.fetchone()[0]
        seconds = [shown(f"tcp_keepalives_{name}") for name in ("idle", "interval", "count")]
        assert seconds == (["0", "0", "0"] if by_unix_socket else ["10", "5", "3"])


def test_a_thread_that_does_not_wait_for_the_server_keeps_its_connection():
    watchdog = Watchdog()
    watchdog.start()
    try:
        with own_connection("default", watchdog, "it"):
            assert shown("statement_timeout") == "0"
            with limited(0.1):
                time.sleep(1)
                assert shown("statement_timeout") == "0"
    finally:
        watchdog.stop()


def test_maintenance_that_fails_at_the_start_is_tried_again(hire, monkeypatch, caplog):
    tries = []
    done = threading.Event()

    def fails_once(using):
        tries.append(using)
        if len(tries) == 1:
            raise Error("the database was restarted")
        start_maintenance(using)
        done.set()

    monkeypatch.setattr("duebox.worker.maintenance.start_maintenance", fails_once)
    hire()
    assert done.wait(20)
    assert len(tries) == 2
    eventually(lambda: "maintenance failed; next try in 1 s" in caplog.text)
