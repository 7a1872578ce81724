"""A module of tasks that Celery imports when a worker starts, and not before."""

from __future__ import annotations

from typing import Any

from tests.celery_project import app


@app.task(name="project.later", shared=False)  # no other app of the tests needs it
def later(event: dict[str, Any]) -> None:
    raise AssertionError("it is not run here")
