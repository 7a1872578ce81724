from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

MANAGE = Path(__file__).parents[1] / "manage.py"


@pytest.fixture
def manage() -> Iterator[Callable[..., str]]:
    """Runs a command in this process and gives its output; what it changed for the whole process is put back."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    threshold = gc.get_threshold()

    def run(*words: str) -> str:
        out = StringIO()
        call_command(*words, stdout=out, stderr=out)
        return out.getvalue()

    yield run
    for each, handler in handlers.items():
        signal.signal(each, handler)
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts manage.py in a process of its own, on this test's database unless the environment says otherwise."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, **environment: str) -> subprocess.Popen[str]:
        name = connections["default"].settings_dict["NAME"]
        process = subprocess.Popen(
            [sys.executable, str(MANAGE), *words],
            env={**os.environ, "DUEBOX_TEST_NAME": name, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def nowhere() -> dict[str, Any]:
    """An environment whose database does not answer."""
    return {"DUEBOX_TEST_DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing"}
