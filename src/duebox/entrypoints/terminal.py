"""What commands print for people: tables, times, progress, log lines."""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.core.management.base import BaseCommand

from duebox.fact import Actor
from duebox.when.times import short

DRY_RUN = "Dry run: nothing was changed."


def operator() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def operator_actor() -> Actor:
    """The same as an actor: the name is that of an account of the machine, not of a user of the project."""
    return Actor("operator", operator())


def show_logs(level: int) -> None:
    """Print log lines from this level on to stderr, with tracebacks, unless the project has handlers for them. A level
    that the project has set for `duebox` stays."""
    ours = logging.getLogger("duebox")
    if ours.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    ours.addHandler(handler)
    if ours.level == logging.NOTSET:
        ours.setLevel(level)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table for a terminal: columns without anything in them are left out, numbers stand to the right."""
    lines = [""] * (len(rows) + 1)
    for column in zip(head, *rows, strict=True):
        if any(column[1:]):
            width = max(map(len, column))
            adjust = str.rjust if all(map(str.isdecimal, column[1:])) else str.ljust
            lines = [f"{line}{adjust(cell, width)}  " for line, cell in zip(lines, column, strict=True)]
    return [line.rstrip() for line in lines]


def readable(moment: datetime) -> str:
    """A time as people read it: to the minute, unless it has seconds."""
    return short(moment.replace(tzinfo=None)).replace("T", " ")


def with_weekday(moment: datetime) -> str:
    """A local time with its weekday, which is what people look for."""
    return f"{moment:%a} {readable(moment)}"


@contextmanager
def progress(command: BaseCommand, what: str, *, quiet: bool = False) -> Iterator[Callable[[int], None] | None]:
    """Counts on one line of a terminal that is gone when the work is done; None where nobody watches."""
    if quiet or not command.stderr.isatty():
        yield None
        return
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        _overwrite(command, f"{what}: {done} rows")

    try:
        yield tell
    finally:
        _overwrite(command, "")


def _overwrite(command: BaseCommand, text: str) -> None:
    as_it_is: Callable[[str], str] = str
    command.stderr.write(f"\r\x1b[K{text}", as_it_is, ending="")
    command.stderr.flush()
