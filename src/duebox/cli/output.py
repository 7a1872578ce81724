"""Output and structure of the commands: tables, times, progress, subcommands, and errors without a traceback."""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError, ProgrammingError, connections
from django.utils.connection import ConnectionDoesNotExist
from psycopg.errors import UndefinedTable

from duebox.conf import conf
from duebox.context.logging import JsonFormatter
from duebox.events.fact import Actor
from duebox.exceptions import DueboxError
from duebox.when.times import short

DRY_RUN = "Dry run: nothing was changed."
BAR_WIDTH = 30


def operator() -> str:
    """The user who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def operator_actor() -> Actor:
    """The user as an actor: an account of the machine, not a user of the project."""
    return Actor("operator", operator())


def show_logs(level: int) -> None:
    """Print log lines from this level on to stderr, with tracebacks, unless the project has handlers for them; as JSON
    if DUEBOX["LOG_FORMAT"] is set so. A level that the project has set for `duebox` stays."""
    ours = logging.getLogger("duebox")
    if ours.hasHandlers():
        return
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")
    handler.setFormatter(JsonFormatter() if conf().LOG_FORMAT == "json" else text)
    ours.addHandler(handler)
    if ours.level == logging.NOTSET:
        ours.setLevel(level)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table for a terminal: empty columns are left out, numbers are aligned to the right."""
    lines = [""] * (len(rows) + 1)
    for column in zip(head, *rows, strict=True):
        if any(column[1:]):
            width = max(map(len, column))
            adjust = str.rjust if all(map(str.isdecimal, column[1:])) else str.ljust
            lines = [f"{line}{adjust(cell, width)}  " for line, cell in zip(lines, column, strict=True)]
    return [line.rstrip() for line in lines]


def readable(moment: datetime) -> str:
    """A readable time: to the minute, unless it has seconds."""
    return short(moment.replace(tzinfo=None)).replace("T", " ")


def with_weekday(moment: datetime) -> str:
    """A local time with its weekday."""
    return f"{moment:%a} {readable(moment)}"


@contextmanager
def progress(
    command: BaseCommand, what: str, *, quiet: bool = False, total: Callable[[], int] | None = None
) -> Iterator[Callable[[int], None] | None]:
    """A progress line in a terminal that is removed when the work is done; None without a terminal. With `total`, which
    is only called for a terminal, it shows a bar."""
    if quiet or not command.stderr.isatty():
        yield None
        return
    done, rows, begun = 0, total() if total else 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done
        done += count
        shown = _bar(done, rows, time.monotonic() - begun) if total else f"{done} rows"
        _overwrite(command, f"{what}: {shown}")

    try:
        yield advance
    finally:
        _overwrite(command, "")


def _bar(done: int, total: int, seconds: float) -> str:
    """The progress and the remaining time. Rows may be added meanwhile, so there may be more than at the start."""
    total = max(total, done, 1)
    part = done / total
    left = f", {_duration(seconds / part - seconds)} left" if 0 < part < 1 else ""
    return f"[{'#' * int(part * BAR_WIDTH):<{BAR_WIDTH}}] {part:4.0%}  {done} of {total} rows{left}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _overwrite(command: BaseCommand, text: str) -> None:
    as_it_is: Callable[[str], str] = str
    command.stderr.write(f"\r\x1b[K{text}", as_it_is, ending="")
    command.stderr.flush()


BROKEN_PIPE = 141
"""The exit status that a shell reports for a program that wrote into a closed pipe."""


class PlainCommand(BaseCommand):
    """A command that ends without a traceback when the pipe is closed, as in `duebox deliveries list | head`."""

    def run_from_argv(self, argv: list[str]) -> None:
        try:
            try:
                super().run_from_argv(argv)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            if not _reader_is_gone():
                raise
            # The interpreter flushes once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(BROKEN_PIPE) from None

    def handle(self, *args: Any, **options: Any) -> None:
        with plain_errors():
            self.run(options)

    def run(self, options: dict[str, Any]) -> None:
        raise NotImplementedError


def _reader_is_gone() -> bool:
    """Whether standard output was closed, and not some other connection."""
    asked = select.poll()
    asked.register(sys.stdout.fileno(), select.POLLOUT)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in asked.poll(0))


@contextmanager
def plain_errors() -> Iterator[None]:
    try:
        yield
    except DueboxError as error:
        raise CommandError(str(error)) from error
    except ConnectionDoesNotExist as error:
        raise CommandError(f"{error} There are: {', '.join(connections)}.") from error
    except (OperationalError, InterfaceError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CommandError(f"The database cannot be reached ({reason}); check DATABASES and that it runs.") from error
    except ProgrammingError as error:
        if isinstance(error.__cause__, UndefinedTable):
            raise CommandError("The Duebox tables are missing; run: manage.py migrate duebox") from error
        raise


Options = dict[str, Any]


class Verb(NamedTuple):
    """A subcommand. The docstring of `run` is its help."""

    run: Callable[[BaseCommand, Options], None]
    add_options: Callable[[CommandParser], None] = lambda parser: None

    @property
    def help(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


class Group(NamedTuple):
    """A group of subcommands."""

    title: str
    help: str
    verbs: Mapping[str, Verb | Group]


def add_verbs(parser: CommandParser, verbs: Mapping[str, Verb | Group], *, dest: str, listed: bool = True) -> None:
    """A parser for each verb; the one that was chosen is found as `options["run"]`."""
    arguments: Any = {"metavar": "|".join(verbs)} if listed else {"metavar": "COMMAND", "help": argparse.SUPPRESS}
    below = parser.add_subparsers(dest=dest, required=True, prog=parser.prog, **arguments)
    for name, verb in verbs.items():
        arguments = {"help": summary(verb)} if listed else {}
        # No abbreviations: the supervisor must recognise --processes to leave it out for its children.
        each = below.add_parser(name, **arguments, description=verb.help, allow_abbrev=False)
        if isinstance(verb, Group):
            add_verbs(each, verb.verbs, dest=f"{dest}_below")
        else:
            each.set_defaults(run=verb.run)
            verb.add_options(each)
    below.choices = _Known(below.choices, verbs)


def summary(verb: Verb | Group) -> str:
    """The first sentence of its help."""
    first, dot, _ = verb.help.partition(". ")
    return first + "." if dot else verb.help


def overview(running: Mapping[str, Verb], groups: Mapping[str, Group]) -> str:
    """All commands, one a line."""
    sections: dict[str, Mapping[str, Verb | Group]] = {"Run": running}
    for name, group in groups.items():
        sections[group.title] = {f"{name} {verb}": each for verb, each in group.verbs.items()}
    width = max(len(name) for verbs in sections.values() for name in verbs)
    return "\n\n".join(
        "\n".join([title, *(f"  {name:<{width}}  {summary(each)}" for name, each in verbs.items())])
        for title, verbs in sections.items()
    )


class _Known(dict[str, Any]):
    """Subcommands by name. For an unknown word, the error suggests the closest name."""

    def __init__(self, parsers: Mapping[str, Any], verbs: Mapping[str, Verb | Group]) -> None:
        super().__init__(parsers)
        self._verbs = verbs

    def __contains__(self, word: object) -> bool:
        if super().__contains__(word):
            return True
        below = [
            f"{name} {word}" for name, each in self._verbs.items() if isinstance(each, Group) and word in each.verbs
        ]
        near = below or get_close_matches(str(word), self, n=1)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are: {', '.join(self)}."
        raise argparse.ArgumentError(None, f"There is no command {word!r}; {hint}")
