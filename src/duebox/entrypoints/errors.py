"""What an operator should read instead of a traceback."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, ProgrammingError, connections
from django.utils.connection import ConnectionDoesNotExist
from psycopg.errors import UndefinedTable

from duebox.exceptions import DueboxError

BROKEN_PIPE = 141
"""What a shell reports for a program that wrote into a closed pipe."""


class PlainCommand(BaseCommand):
    """A command that ends without a traceback when its reader goes away, as in `duebox deliveries list | head`."""

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
    """Whether it was our own output that broke, and not some connection."""
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
