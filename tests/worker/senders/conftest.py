from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from tests.app.outside import Post

QUICK = {"limit": 3, "first": 0.01, "factor": 1.0, "jitter": 0.0}


@pytest.fixture
def destinations():
    """Configures destinations by alias, `post` unless said otherwise; gives a function to find them again."""
    stack = []

    def configure(routes: Any = None, backend: str = "Post", **entries: Any) -> Any:
        entries = entries or {"post": {}}
        full = {
            alias: {
                "BACKEND": f"tests.app.outside.{entry.pop('KIND', backend)}",
                "RETRY": QUICK,
                "BREAKER": False,
                **entry,
            }
            for alias, entry in entries.items()
        }
        routes = [{"match": "*", "to": alias} for alias in full] if routes is None else routes
        settings = override_settings(
            DUEBOX={"UNDECLARED": "allow", "DESTINATIONS": full, "ROUTES": routes, "SHUTDOWN_SECONDS": 5.0}
        )
        settings.enable()
        stack.append(settings)
        from duebox.destinations.registry import subscriptions

        for each in subscriptions().values():
            each.destination()
        return Post.boxes

    yield configure
    for settings in reversed(stack):
        settings.disable()
    Post.boxes.clear()
