from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction

from duebox.models import Worker
from tests.support import a_lease

pytestmark = pytest.mark.django_db


def test_a_worker_says_its_name_its_mode_and_how_long_it_is_trusted():
    worker = Worker(name="host:1", mode="listen", expires_at=datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC))
    assert str(worker) == "host:1 (listen), alive until 12:00:05"


def test_a_lease_is_never_given_twice():
    first = a_lease()
    Worker.objects.all().delete()
    assert a_lease() != first


def test_the_database_refuses_an_unknown_mode():
    with pytest.raises(IntegrityError, match="duebox_worker_known_mode"), transaction.atomic():
        Worker.objects.create(name="it", mode="guess", expires_at=datetime.now(UTC))
