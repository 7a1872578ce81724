"""In a test run nothing is worth keeping: Django empties the tables after each test that commits."""

from __future__ import annotations

from typing import Any

from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from duebox.store.audits import allow_truncate


def _connected(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    # The outbox of mails is there only while Django's test environment is set up. To create the test database Django
    # connects under a name that is nobody's alias.
    if hasattr(mail, "outbox") and connection.vendor == "postgresql" and connection.alias in connections:
        allow_truncate(connection.alias)


connection_created.connect(_connected, dispatch_uid="duebox.auditing.disposable")
