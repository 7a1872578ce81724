from __future__ import annotations

from typing import Any

import pytest

from duebox.schedules import capture


@pytest.fixture(autouse=True)
def _triggers(request: pytest.FixtureRequest) -> None:
    """The database was migrated with the triggers of followed models; another test may have left others."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue(_database(request))
        if any(each.state != "installed" for each in capture.tables("default") if each.purpose == capture.AUDIT):
            capture.install("default")


def _database(request: Any) -> str:
    marker = request.node.get_closest_marker("django_db")
    return "transactional_db" if marker.kwargs.get("transaction") else "db"
