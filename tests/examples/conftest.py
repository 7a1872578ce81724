from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser import start

REPOSITORY = Path(__file__).resolve().parents[2]


class Clinic:
    """`make demo`: the process, and the address that it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed = ""
        for line in process.stdout:
            self.printed += line
            if "Ctrl-C stops everything" in line:
                break
        self.url = next(word for word in self.printed.split() if word.startswith("http") and word.endswith("/"))

    def stop(self) -> int:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.printed += self.process.communicate(timeout=120)[0]
        return self.process.returncode


@contextmanager
def clinic_in(folder: Path) -> Iterator[Clinic]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "examples.clinic.demo", "--port", "0", "--folder", str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Clinic(process)
    finally:
        process.terminate()
        process.communicate(timeout=120)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    with clinic_in(tmp_path_factory.mktemp("clinic")) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    found, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (found and driver):
        pytest.skip("no chromium and chromedriver on the PATH; install: apt-get install chromium chromium-driver")
    with start(found, driver) as browser:
        yield browser
