"""A page of the documentation, followed to the letter: files written, commands run, output compared."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType

from tests.docs.pages import Block


class Reader:
    """Follows blocks in a folder. Its background processes end with the `with` block."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, seconds: float = 60) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self.seconds = seconds
        self.running: list[subprocess.Popen[str]] = []
        self.output: list[str] = []
        """Each command with what it printed."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.running:
            process.terminate()  # not kill: the last one to leave stops an embedded database
            process.communicate(timeout=40)

    def follow(self, block: Block) -> None:
        if block.mark == "file":
            (self.folder / block.rest).write_text(block.text)
        elif block.mark == "append":
            with (self.folder / block.rest).open("a") as file:
                file.write("\n" + block.text)
        elif block.mark == "background":
            self.start(block.text.removeprefix("$ ").strip())
        elif block.language == "console" and block.mark != "not-run":
            for command, expected in _commands(block):
                self.run(command, expected, fails=block.mark == "fails")

    def run(self, command: str, expected: list[str] | None = None, *, fails: bool = False) -> str:
        """Each line that is expected must be printed; `...` stands for anything."""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=self.seconds,
        )
        said = done.stdout + done.stderr
        self.output.append(f"$ {command}\n{said}")
        assert (done.returncode != 0) == fails, f"{command}\n{said}"
        for line in expected or []:
            assert any(fnmatchcase(each, line) for each in said.splitlines()), f"{command}: no line {line!r} in\n{said}"
        return said

    def start(self, command: str) -> None:
        process = subprocess.Popen(
            f"exec {command}",
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.running.append(process)

    def output_of(self, process: subprocess.Popen[str], *, until: str) -> str:
        """What a background process printed; it is asked to stop once the awaited text is there."""
        too_long = threading.Timer(30, process.kill)
        too_long.start()
        said = []
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if until in line:
                process.send_signal(signal.SIGINT)
        code = process.wait()
        too_long.cancel()
        self.output.append("".join(said))
        assert code == 0, "".join(said)
        return "".join(said)


def _commands(block: Block) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line.replace("[", "[[]").replace("...", "*"))
    return found
