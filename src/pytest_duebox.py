"""Fixtures for pytest, found by themselves where Duebox is installed.

Outside of the package, and without an import of it: pytest loads this file in every project of an environment, also
where Django has no settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from duebox.testing import Outbox, Traveller


@pytest.fixture
def duebox_clock() -> Iterator[Traveller]:
    """A clock that stands still at this moment, until `clock.run`, `clock.to` or `clock.by` moves it."""
    from django.utils import timezone

    from duebox.testing import travel

    with travel(timezone.now()) as clock:
        yield clock


@pytest.fixture
def duebox_outbox() -> Iterator[Outbox]:
    """The events that are emitted in the test, in order, with `assert_emitted`, `refute_emitted` and `drain`."""
    from duebox.testing import captured

    with captured() as outbox:
        yield outbox
