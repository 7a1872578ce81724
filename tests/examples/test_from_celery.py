"""A shop with Celery and django-celery-beat, and the same shop with Duebox: both run at once, and do the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import redis
from django.conf import settings

from tests.database import drop, server
from tests.support import eventually

ROOT = Path(__file__).resolve().parents[2]
BROKER = "redis://127.0.0.1:6379/7"
STOCK_SECONDS = 2
ONCE = {"receipt": "A-1", "charge": "A-1 charged at attempt 3", "closed": "A-1", "review": "A-1", "sale": "summer"}
AGAIN_AND_AGAIN = {"report": "orders so far: 1", "stock": "checked"}
LONG = 150.0
"""The report comes at the next full minute; besides, the machine may have other things to do."""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.crash,
    pytest.mark.skipif(
        find_spec("django_celery_beat") is None,
        reason="django-celery-beat is not installed: 2.9 takes no Django above 6.0 (pip install --group from-celery)",
    ),
]


class Project:
    """One of the two, on a database of its own."""

    def __init__(self, name: str, **environment: str) -> None:
        self.name = name
        self.entry = settings.DATABASES["default"]
        self.database = f"duebox_{name}_{uuid.uuid4().hex}"
        self.prefix = f"{self.database}:"
        user = quote(self.entry["USER"]) + (f":{quote(word)}" if (word := self.entry.get("PASSWORD")) else "")
        place = f"host={quote(self.entry['HOST'], safe='')}&port={self.entry['PORT'] or 5432}"
        self.url = f"postgresql://{user}@/{self.database}?{place}"
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": f"examples.from_celery.{name}.settings",
            "DATABASE_URL": self.url,
            "SHOP_BROKER": BROKER,
            "SHOP_KEY_PREFIX": self.prefix,
            **environment,
        }
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        with server(self.entry) as connection:
            connection.execute(f"CREATE DATABASE {self.database}")

    def manage(self, *words: str) -> str:
        command = [sys.executable, "-m", f"examples.from_celery.{self.name}.manage", *words]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *words: str) -> None:
        command = [sys.executable, "-m", *words]
        out = {"stdout": self._logs, "stderr": subprocess.STDOUT}
        self._running.append(subprocess.Popen(command, cwd=ROOT, env=self._environment, **out))

    def results(self) -> list[tuple[str, str, datetime]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute("SELECT what, text, at FROM shop_result ORDER BY at").fetchall()

    def logs(self) -> str:
        self._logs.seek(0)
        return self._logs.read()

    def end(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._logs.close()
        drop(self.entry, self.database)
        with redis.Redis.from_url(BROKER) as client:
            for key in client.scan_iter(f"{self.prefix}*"):
                client.delete(key)


@pytest.fixture
def before_and_after():
    soon = datetime.now(UTC) + timedelta(seconds=40)
    environment = {
        "SHOP_REPORT_CRON": "* * * * *",
        "SHOP_STOCK_SECONDS": str(STOCK_SECONDS),
        "SHOP_SALE_AT": soon.isoformat(),
        "SHOP_PAY_WITHIN_SECONDS": "8",
        "SHOP_REVIEW_SECONDS": "5",
    }
    projects = []
    try:
        for name in ("before", "after"):
            projects.append(Project(name, **environment))
        yield projects
    finally:
        for each in projects:
            each.end()


def test_both_projects_leave_the_same_results(before_and_after):
    before, after = before_and_after
    for each in before_and_after:
        each.manage("migrate", "-v", "0")
        each.manage("setup")
        assert each.manage("place_orders") == "A-1 was placed, A-2 was rolled back\n"
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")
    before.start("celery", "-A", "examples.from_celery.before", "worker", "-c", "2", *quiet)
    before.start("celery", "-A", "examples.from_celery.before", "beat", "-l", "INFO")
    after.start("examples.from_celery.after.manage", "duebox", "worker")
    for each in before_and_after:
        try:
            eventually(lambda each=each: {what for what, _, _ in each.results()} == {*ONCE, *AGAIN_AND_AGAIN}, LONG)
            eventually(lambda each=each: Counter(what for what, _, _ in each.results())["stock"] > 3, LONG)
        except AssertionError as error:
            raise AssertionError(f"{each.name} has {each.results()}\n{each.logs()}") from error

    told = [{(what, text) for what, text, _ in each.results()} for each in before_and_after]
    assert told[0] == told[1] == {*ONCE.items(), *AGAIN_AND_AGAIN.items()}
    for each in before_and_after:
        counted = Counter(what for what, _, _ in each.results())
        assert {what: counted[what] for what in ONCE} == dict.fromkeys(ONCE, 1)
        assert all(at.second < 20 for what, _, at in each.results() if what == "report")
