"""What the cases are played on: an environment with the wheel, a project and a database for each document, servers."""

from __future__ import annotations

import json
import queue
import shutil
import socket
import subprocess
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.destinations.stages.aws import REGION, moto_port
from tests.wheel import ROOT, build, clean_environment, database, environment

PROJECTS = {
    "reminders": "appointment reminders and follow-ups, on Django",
    "uploads": "an outbox beside Celery",
    "todos": "an hourly reminder worker",
    "timesheets": "an event architecture on EventBridge",
    "birthdays": "greetings at nine, wherever people are",
}
EXTRAS = "aws,binary,celery,redis,sqlalchemy,webhooks"
PACKAGES = (
    "apscheduler<4", "celery[redis,sqlalchemy]", "django-celery-beat", "fastapi", "httpx", "standardwebhooks",
    "structlog",
)  # fmt: skip
AT_ONCE = 2
"""Projects that are played at the same time."""


class Played(NamedTuple):
    project: str
    row: str
    text: str
    ok: bool
    seconds: float
    why: str = ""

    def line(self) -> str:
        word = "PASS" if self.ok else "FAIL"
        return f"{word}  {self.project:<10}  {self.row:<4} {self.text} ({self.seconds:.1f} s)"


def play_all(names: Sequence[str], *, only: str = "") -> Iterator[Played]:
    """Results as they come."""
    with TemporaryDirectory(prefix="duebox-sources-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        wheel = build(place / "dist")
        binaries = environment(place / "env", f"duebox[{EXTRAS}] @ {wheel.as_uri()}", *PACKAGES)
        moto_port()
        _start_postgresql()
        todo: queue.SimpleQueue[str] = queue.SimpleQueue()
        for name in names:
            todo.put(name)
        results: queue.SimpleQueue[Played | None] = queue.SimpleQueue()
        players = [
            threading.Thread(target=_player, args=[todo, results, place, binaries, only]) for _ in range(AT_ONCE)
        ]
        for player in players:
            player.start()
        ended = 0
        while ended < len(players):
            result = results.get()
            if result is None:
                ended += 1
            else:
                yield result
        for player in players:
            player.join()


def _player(
    todo: queue.SimpleQueue[str], results: queue.SimpleQueue[Played | None], place: Path, binaries: Path, only: str
) -> None:
    try:
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                return
            for result in _play(name, place, binaries, only):
                results.put(result)
    finally:
        results.put(None)


def _play(name: str, place: Path, binaries: Path, only: str) -> Iterator[Played]:
    try:
        with _project(name, place, binaries) as variables:
            yield from _cases(name, place / name, variables, only)
    except Exception:
        yield Played(name, "", "the project is made and played to its end", False, 0.0, traceback.format_exc())


@contextmanager
def _project(name: str, place: Path, binaries: Path) -> Iterator[dict[str, str]]:
    """What `startproject` makes, with the app of the document in it, on an empty database."""
    folder = place / name
    folder.mkdir()
    with database(f"duebox_source_{name}") as entry:
        variables = clean_environment(
            binaries,
            DJANGO_SETTINGS_MODULE=f"{name}.settings",
            SOURCE_DATABASE=json.dumps(entry),
            SOURCE_AWS=f"http://127.0.0.1:{moto_port()}",
            SOURCE_FOLDER=str(folder),
            SOURCE_PORT=str(_free_port()),
            AWS_DEFAULT_REGION=REGION,
        )
        plain = {key: value for key, value in variables.items() if key != "DJANGO_SETTINGS_MODULE"}
        _run(["django-admin", "startproject", "project", "."], folder, plain)
        here = ROOT / "tests" / "sources"
        shutil.copytree(here / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(here / "play.py", folder / "play.py")
        apps = [place.parent.name for place in (folder / name).rglob("models.py")]
        _run(["python", "manage.py", "makemigrations", *apps], folder, variables)
        _run(["python", "manage.py", "migrate"], folder, variables)
        yield variables


def _cases(name: str, folder: Path, variables: dict[str, str], only: str) -> Iterator[Played]:
    command = ["python", "-c", f"import play; play.main('{name}.cases', {only!r})"]
    with (folder / "cases.log").open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield Played(project=name, **json.loads(line))
        code = process.wait()
        log.seek(0)
        assert code == 0, f"exit code {code}\n{log.read()[-4000:]}"


def _start_postgresql() -> None:
    """Before there are threads: an embedded server is started by one thread of a process."""
    with database("duebox_source"):
        pass


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _run(command: list[str], folder: Path, variables: dict[str, Any]) -> None:
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
