"""Workers behind PgBouncer in transaction mode. `apt-get install pgbouncer` installs it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from django.db import connections

import duebox
from duebox.models import Attempt, Delivery, Worker
from tests.app.models import Effect
from tests.crash.stage import Processes, wait_until
from tests.support import nap_is_going_on
from tests.worker.proxy import PLAIN, Proxy

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(PGBOUNCER is None, reason="there is no pgbouncer; install Debian's package pgbouncer"),
]


@pytest.fixture
def pgbouncer(processes: Processes, tmp_path: Path) -> Iterator[None]:
    """The processes of this test go through it. It reaches the server by TCP: it may not run as root, and another user
    cannot open the socket of the tests' server."""
    entry = connections["default"].settings_dict
    proxy = Proxy(entry)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={proxy.port} user={entry['USER'] or 'postgres'}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 20\nserver_tls_sslmode = disable\nlogfile = /dev/null\n"
    )
    for each in (tmp_path, *list(tmp_path.parents)[:2]):
        each.chmod(0o755)
    user = {"user": "nobody"} if os.getuid() == 0 else {}
    running = subprocess.Popen([str(PGBOUNCER), "-q", str(config)], **user)
    processes.connect_by("127.0.0.1", port, **PLAIN)
    yield
    running.terminate()
    running.wait(10)
    proxy.close()


def test_a_session_that_ends_behind_pgbouncer_uses_up_no_attempt(
    pgbouncer: None, processes: Processes, elsewhere: psycopg.Connection
) -> None:
    processes.worker(LISTEN=False, POLL_SECONDS=0.2)
    wait_until(Worker.objects.exists, 30, "the start", processes.logs)
    duebox.emit("nap.asked", {"seconds": 2.0})
    wait_until(nap_is_going_on, 60, "the handler's beginning", processes.logs)
    elsewhere.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND state = 'idle in transaction' AND query LIKE 'INSERT INTO \"app_effect\"%%'"
    )
    elsewhere.commit()
    wait_until(lambda: not Delivery.objects.exists(), 30, "the delivery", processes.logs)
    assert Attempt.objects.get(outcome="delivered").number == 1
    assert Effect.objects.count() == 1


@pytest.fixture
def ends_session_at_commit(elsewhere: psycopg.Connection) -> Iterator[None]:
    """The first session that has written an effect is ended by the server during its commit. The client then gets two
    answers to its COMMIT, that of the server and that of PgBouncer."""
    elsewhere.execute("CREATE SEQUENCE commits_of_test")
    elsewhere.execute(
        "CREATE FUNCTION end_session_of_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('commits_of_test') = 1 THEN "
        "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); END IF; RETURN NULL; END $$"
    )
    elsewhere.execute(
        "CREATE CONSTRAINT TRIGGER end_session_of_test AFTER INSERT ON app_effect DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION end_session_of_test()"
    )
    elsewhere.commit()
    yield
    elsewhere.execute("DROP FUNCTION end_session_of_test CASCADE")
    elsewhere.execute("DROP SEQUENCE commits_of_test")
    elsewhere.commit()


@pytest.mark.usefixtures("pgbouncer", "ends_session_at_commit")
def test_a_session_that_ends_behind_pgbouncer_during_a_commit_uses_up_no_attempt(processes: Processes) -> None:
    processes.worker(LISTEN=False, POLL_SECONDS=0.2)
    wait_until(Worker.objects.exists, 30, "the start", processes.logs)
    duebox.emit("nap.asked", {"seconds": 0.0})
    wait_until(lambda: not Delivery.objects.exists(), 60, "the delivery", processes.logs)
    outcomes = list(Attempt.objects.order_by("id").values_list("outcome", "number"))
    assert outcomes == [("retried", 1), ("delivered", 1)], processes.logs()
    assert "received 2 results from command 'COMMIT'" in Attempt.objects.earliest("id").note
