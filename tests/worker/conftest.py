from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """The `DUEBOX` setting for a short-lived worker, changed as given."""

    def change(**changes: Any) -> None:
        usual = {"LEASE_SECONDS": 3, "POLL_SECONDS": 0.1, "SHUTDOWN_SECONDS": 5, "THREADS": 2, "LISTEN": False}
        settings.DUEBOX = {"UNDECLARED": "allow", **usual, **changes}

    change()
    return change
