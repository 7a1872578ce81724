"""Everything goes wrong at once: workers are killed, stopped and frozen, sessions end, the server crashes.

`make soak` does this for a minute, `make chaos` for ten. A third of the time each: connected directly, through
PgBouncer in transaction mode, and with Django's own connection pool.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from django.db import Error, connection, connections

import duebox
from duebox.embedded import Embedded
from duebox.models import Delivery, Event, Schedule, Worker
from duebox.when import every
from tests.app.models import Account, Effect
from tests.crash.stage import Processes, wait_until
from tests.crash.test_conservation import PATIENT, judge, what_is_left
from tests.worker.proxy import PLAIN

pytestmark = [pytest.mark.crash, pytest.mark.soak, pytest.mark.django_db(transaction=True)]

SECONDS = float(os.environ.get("DUEBOX_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("DUEBOX_CHAOS_SEED", "20261117"))
WORKERS = 3
EMITTERS = 2
TICKING = 10
TROUBLES = {"SIGKILL": 4, "SIGTERM": 3, "SIGSTOP": 3, "backend terminated": 5, "server crashed": 1}
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@pytest.fixture(params=["direct", "pgbouncer", "pool"])
def way(request: pytest.FixtureRequest, own_server: Embedded, processes: Processes) -> Iterator[str]:
    """How emitters and workers are connected."""
    entry = connections["default"].settings_dict
    if request.param == "pool":
        pytest.importorskip("psycopg_pool")
        processes.connect_by(entry["HOST"], entry["PORT"], pool=True)
    if request.param != "pgbouncer":
        yield request.param
        return
    if PGBOUNCER is None:
        pytest.skip("there is no pgbouncer; install Debian's package pgbouncer")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={entry['HOST']} port={entry['PORT'] or 5432} user={entry['USER']}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 30\nserver_login_retry = 1\nserver_tls_sslmode = disable\n"
    )
    # PgBouncer may not run as root, and only the user of the server may open its socket.
    owner = psutil.Process(own_server.pid).username()
    user = {"user": owner} if os.getuid() == 0 else {}
    running = subprocess.Popen([PGBOUNCER, "-q", str(config)], stderr=subprocess.DEVNULL, **user)
    processes.connect_by("127.0.0.1", port, **PLAIN)
    yield request.param
    running.terminate()
    running.wait(10)
    shutil.rmtree(folder)


def test_chaos_loses_nothing_doubles_nothing_and_leaves_nothing_behind(
    way: str, own_server: Embedded, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    Account.objects.bulk_create(Account(id=number) for number in range(1, 41))
    for number in range(TICKING):
        duebox.schedule("chaos.ticked", {"clock": number}, repeat=every(seconds=1), key=f"tick:{number}")
    chaos = Chaos(own_server, processes)
    emitters = [processes.chaos_emitter(SEED + number) for number in range(EMITTERS)]
    wait_until(lambda: Worker.objects.count() == WORKERS and Effect.objects.exists(), 120, "the start", processes.logs)
    chaos.go_on(SECONDS / 3)
    for emitter in emitters:
        emitter.process.kill()
    chaos.calm_down()
    for number in range(TICKING):
        duebox.cancel(f"tick:{number}")
    fates = [fate for emitter in emitters for fate in emitter.fates()]
    committed, rolled_back, reminders = (
        {id for fate, id in fates if fate == kind} for kind in ("committed", "rolled_back", "reminder")
    )
    assert committed, processes.logs()
    wait_until(all_is_done, 120, "the end of all work", what_is_left)
    count_and_judge(committed, rolled_back, reminders)
    with capsys.disabled():
        print(f"\n{way}: {chaos.counted}; {counts()}")
    assert sum(chaos.counted.values()) >= SECONDS / 3 / 3, "hardly anything went wrong"


class Chaos:
    """Does something bad about once in a second."""

    def __init__(self, server: Embedded, processes: Processes) -> None:
        self._server, self._processes = server, processes
        self._workers = [processes.worker(**PATIENT) for _ in range(WORKERS)]
        self._frozen: dict[int, float] = {}
        self._luck = random.Random(SEED)
        self.counted: Counter[str] = Counter()

    def go_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self._luck.uniform(0.3, 1.2))
            self._thaw(time.monotonic())
            [trouble] = self._luck.choices(list(TROUBLES), list(TROUBLES.values()))
            if trouble == "server crashed":
                crash(self._server)
            elif trouble == "backend terminated":
                self._end_a_session()
            else:
                self._signal_a_worker(getattr(signal, trouble))
            self.counted[trouble] += 1

    def calm_down(self) -> None:
        self._thaw(float("inf"))
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[number] = self._processes.worker(**PATIENT)

    def _signal_a_worker(self, what: signal.Signals) -> None:
        number = self._luck.randrange(WORKERS)
        victim = self._workers[number]
        if what is signal.SIGSTOP:
            victim.send_signal(what)
            # Half of them longer than their lease.
            self._frozen.setdefault(number, time.monotonic() + self._luck.uniform(1, 6))
            return
        if number in self._frozen and what is signal.SIGTERM:
            return
        self._frozen.pop(number, None)
        victim.send_signal(what)
        self._workers[number] = self._processes.worker(**PATIENT)

    def _thaw(self, now: float) -> None:
        for number, until in list(self._frozen.items()):
            if until <= now:
                del self._frozen[number]
                self._workers[number].send_signal(signal.SIGCONT)

    def _end_a_session(self) -> None:
        with psycopg.connect(self._server.url, dbname=connection.settings_dict["NAME"], autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1"
            )


def crash(server: Embedded) -> None:
    """As pg_ctl stop -m immediate does it, and a start after it."""
    postmaster = psutil.Process(server.pid)
    postmaster.send_signal(signal.SIGQUIT)
    with suppress(psutil.TimeoutExpired):
        postmaster.wait(20)
    server._server.ensure_postgres_running()
    connection.close()


def all_is_done() -> bool:
    try:
        return not Delivery.objects.exists() and not Schedule.objects.filter(status="scheduled").exists()
    except Error:  # its own session may be the one that was ended
        connection.close()
        return False


def count_and_judge(committed: set[str], rolled_back: set[str], reminders: set[str]) -> None:
    judge(committed, rolled_back)
    fired = Counter(Event.objects.filter(type="chaos.reminder_due").values_list("data__reminder", flat=True))
    assert reminders <= set(fired), "a reminder did not fire"
    assert not rolled_back & set(fired)
    assert set(fired.values()) <= {1}, "a reminder fired twice"
    ticks = Counter(Event.objects.filter(type="chaos.ticked").values_list("idempotency_key", flat=True))
    assert ticks
    assert None not in ticks
    assert set(ticks.values()) == {1}, "an occurrence fired twice"
    effects = Counter(Effect.objects.filter(subscriber="chaos.atomic").values_list("event_id", flat=True))
    assert set(effects) == set(Event.objects.filter(type__startswith="chaos.").values_list("id", flat=True))
    assert set(effects.values()) == {1}, "an effect of an atomic handler was repeated"


def counts() -> str:
    types = dict(Counter(Event.objects.values_list("type", flat=True)))
    return f"{types}, {Effect.objects.exclude(subscriber='ledger.outside').count()} atomic effects"
