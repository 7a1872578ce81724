from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MANAGE = Path(__file__).resolve().parents[1] / "manage.py"
REPOSITORY = Path(__file__).resolve().parents[3]
STOP_SECONDS = 30.0


class Trouble(Exception):
    """The demo cannot go on; says why."""


class Process:
    """One Python program that runs beside the demo and writes to a log of its own."""

    def __init__(self, name: str, command: tuple[str, ...], *, log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = log
        with log.open("a") as output:
            # A session of its own: Ctrl-C reaches the demo alone, which then stops the others in order.
            self._child = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                cwd=REPOSITORY,
                start_new_session=True,
            )

    def must_be_alive(self) -> None:
        if self._child.poll() is not None:
            raise Trouble(f"The {self.name} ended with code {self._child.returncode}:\n{self.last_words()}")

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-12:])

    def stop(self) -> str | None:
        """SIGTERM, then patience. Says what was wrong, if anything was."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        try:
            code = self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return f"The {self.name} did not stop within {STOP_SECONDS:.0f} s and was killed."
        # Django's server has no handler for SIGTERM, so it ends by the signal itself.
        if code in (0, -signal.SIGTERM):
            return None
        return f"The {self.name} ended with code {code}:\n{self.last_words()}"


def manage(*command: str) -> str:
    """Run a `manage.py` command to its end and give back what it printed."""
    done = subprocess.run([sys.executable, str(MANAGE), *command], capture_output=True, text=True)
    if done.returncode:
        raise Trouble(f"manage.py {' '.join(command)} ended with code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout.strip()
