"""In a test run nothing is worth keeping: Django empties the tables after each test that commits."""

from __future__ import annotations

import sys
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from duebox.store.audits import allow_truncate


def _connected(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    # To create the test database Django connects under a name that is nobody's alias.
    if _is_test_run() and connection.vendor == "postgresql" and connection.alias in connections:
        allow_truncate(connection.alias)


def _is_test_run() -> bool:
    """Whether Django's test environment is set up. What it saved then, to put it back at the end, is the one trace that
    nothing else leaves: an outbox of mails is made by a backend too, and an allowed host may be called testserver."""
    utils = sys.modules.get("django.test.utils")  # who has not loaded it runs no tests
    return hasattr(getattr(utils, "_TestState", None), "saved_data")


connection_created.connect(_connected, dispatch_uid="duebox.auditing.disposable")
