"""What an operator should read instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import OperationalError, ProgrammingError, connections
from django.utils.connection import ConnectionDoesNotExist
from psycopg.errors import UndefinedTable

from duebox.exceptions import NotReady


@contextmanager
def plain_errors() -> Iterator[None]:
    try:
        yield
    except NotReady as error:
        raise CommandError(str(error)) from error
    except ConnectionDoesNotExist as error:
        raise CommandError(f"{error} There are: {', '.join(connections)}.") from error
    except OperationalError as error:
        reason = str(error).strip().splitlines()[0]
        raise CommandError(f"The database cannot be reached ({reason}); check DATABASES and that it runs.") from error
    except ProgrammingError as error:
        if isinstance(error.__cause__, UndefinedTable):
            raise CommandError("The Duebox tables are missing; run: manage.py migrate duebox") from error
        raise
