"""Django views for monitoring: add them to the URLs of your project, with your own access control, as in
`path("health/duebox/", health_view)` and `path("metrics/duebox/", metrics_view)`."""

from __future__ import annotations

import threading
import time
from functools import cache
from typing import Any

from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from duebox.conf import conf
from duebox.exceptions import DueboxError
from duebox.observe.metrics.gauges import DatabaseGauges
from duebox.observe.status import status
from duebox.store.run_sql import TooSlow, statement_timeout

__all__ = ["health_view", "metrics_view"]

CACHED_SECONDS = 5.0
STATEMENT_SECONDS = 2.0
"""A statement that takes longer is cancelled: other requests to the view in the same process wait for it."""

_lock = threading.Lock()
_last: tuple[float, dict[str, Any]] = (float("-inf"), {})


@never_cache
@require_safe
def health_view(request: HttpRequest) -> JsonResponse:
    """200 if `duebox status` finds no problem, otherwise 503, with the problems. The result is cached for a few
    seconds, so frequent requests do not cause more queries."""
    global _last
    with _lock:
        read_at, found = _last
        if time.monotonic() - read_at > CACHED_SECONDS:
            found = _read()
            _last = (time.monotonic(), found)
    return JsonResponse(found, status=200 if found["healthy"] else 503)


def _read() -> dict[str, Any]:
    try:
        with statement_timeout(conf().DATABASE, STATEMENT_SECONDS):
            found = status()
    except TooSlow:
        return {"healthy": False, "problems": [f"The database did not answer within {STATEMENT_SECONDS:g} s"]}
    except (Error, DueboxError) as error:
        kind = "The database does not answer" if isinstance(error, Error) else str(error)
        return {"healthy": False, "problems": [kind]}
    problems = found.problems()
    return {
        "healthy": not problems,
        "problems": problems,
        "workers": found.workers,
        "due": found.due,
        "oldest_due_seconds": found.oldest_due_seconds,
        "dead": found.dead,
    }


@never_cache
@require_safe
def metrics_view(request: HttpRequest) -> HttpResponse:
    """The gauges of the database, and the counters of this process, for Prometheus. The counters of workers are at
    their own ports."""
    from duebox.observe.metrics.prometheus import exposition

    body, content_type = exposition(_gauges(conf().DATABASE))
    return HttpResponse(body, content_type=content_type)


@cache
def _gauges(using: str) -> DatabaseGauges:
    return DatabaseGauges(using, lambda: statement_timeout(using, STATEMENT_SECONDS))
