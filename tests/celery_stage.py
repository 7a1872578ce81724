"""Celery workers and beat as processes, on the database of a test and on a queue of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import redis
from django.db import connections
from kombu import Connection, Queue
from sqlalchemy.engine import URL

from tests.celery_project import RABBITMQ, REDIS
from tests.support import eventually

ROOT = Path(__file__).parent.parent
POSTGRESQL = "postgresql"
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")


def in_database() -> str:
    """The database of the test as a broker, as projects have it that want no other server."""
    entry = connections["default"].settings_dict
    place = {"host": entry["HOST"], "port": str(entry["PORT"] or 5432)}
    user = (entry["USER"] or None, entry["PASSWORD"] or None)
    url = URL.create("postgresql", *user, database=entry["NAME"], query=place)
    return f"sqla+{url.render_as_string(hide_password=False)}"


class CeleryStage:
    def __init__(self, broker: str = REDIS) -> None:
        self.broker = in_database() if broker == POSTGRESQL else broker
        self.queue = f"duebox-{uuid.uuid4().hex}"
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        self._folder = tempfile.TemporaryDirectory()

    def worker(self, *options: str, **settings: Any) -> subprocess.Popen[bytes]:
        """Ready when it is given."""
        said = self.logs().count(" ready.")
        process = self._start("worker", "-c", "2", *QUIET, *options, **settings)
        eventually(lambda: self.logs().count(" ready.") > said or process.poll() is not None, 60)
        assert process.poll() is None, self.logs()
        return process

    def beat(self, seconds: float, **settings: Any) -> subprocess.Popen[bytes]:
        schedule = str(Path(self._folder.name) / "schedule")
        return self._start("beat", "-s", schedule, "-l", "INFO", sweep_seconds=seconds, **settings)

    def waiting(self) -> list[dict[str, Any]]:
        """The headers of what nobody took from the queue; of Redis only."""
        with redis.Redis.from_url(REDIS) as client:
            return [json.loads(each)["headers"] for each in reversed(client.lrange(self.queue, 0, -1))]

    def logs(self) -> str:
        self._logs.seek(0)
        return self._logs.read()

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._logs.close()
        self._folder.cleanup()
        with Connection(self.broker) as connection:
            Queue(self.queue, channel=connection.default_channel).delete()

    def _start(self, *words: str, sweep_seconds: float | None = None, **settings: Any) -> subprocess.Popen[bytes]:
        database = connections["default"].settings_dict
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DUEBOX_TEST_NAME": database["NAME"],
            "DUEBOX_TEST_HOST": database["HOST"],
            "DUEBOX_TEST_SETTINGS": json.dumps({"LEASE_SECONDS": 3, "SHUTDOWN_SECONDS": 5, **settings}),
            "DUEBOX_TEST_BROKER": self.broker,
            "DUEBOX_TEST_QUEUE": self.queue,
        }
        if sweep_seconds is not None:
            environment["DUEBOX_TEST_SWEEP_SECONDS"] = str(sweep_seconds)
        command = [sys.executable, "-m", "celery", "-A", "tests.celery_project", *words]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=self._logs, stderr=subprocess.STDOUT)
        self._running.append(process)
        return process


BROKERS = {"redis": REDIS, "rabbitmq": RABBITMQ, "postgresql": POSTGRESQL}
