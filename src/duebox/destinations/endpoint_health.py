"""The health of webhook endpoints: paused, circuit breaker open, about to be disabled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Q
from django.utils import timezone

from duebox.dead_letters.fingerprint import telling_line
from duebox.destinations.names import webhooks
from duebox.destinations.registry import Subscription
from duebox.exceptions import DueboxError
from duebox.models import DestinationState, WebhookEndpoint

_LINE = 100


class State(NamedTuple):
    paused_at: datetime | None = None
    paused_note: str = ""
    open_until: datetime | None = None
    failing_since: datetime | None = None
    gives_up_at: datetime | None = None
    """When it is disabled, if it continues to fail."""
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in self._asdict().items()
        }

    def words(self) -> Iterator[str]:
        error = f": {telling_line(self.error)[:_LINE]}" if self.error else ""
        if self.paused_at:
            yield f"paused since {_minute(self.paused_at)}{f': {self.paused_note}' if self.paused_note else ''}"
        if self.failing_since:
            end = f", disabled at {_minute(self.gives_up_at)}" if self.gives_up_at else ""
            alone = f", no attempts until {_minute(self.open_until)}" if self.open_until else ""
            yield f"failing since {_minute(self.failing_since)}{end}{alone}{error}"
        elif self.open_until:
            yield f"no attempts until {_minute(self.open_until)}{error}"


def states_of(using: str) -> Callable[[WebhookEndpoint], State]:
    """The health of each endpoint, with one query for all of them."""
    served = webhooks()
    if served is None:
        return lambda row: State()
    rows = DestinationState.objects.using(using).filter(Q(name=served.name) | Q(name__startswith=f"{served.name}/"))
    states = {state.name: state for state in rows}
    whole, days = states.get(served.name, DestinationState()), _days(served)
    return lambda row: _state(row, states.get(f"{served.name}/{row.pk}", DestinationState()), whole, days)


def _state(row: WebhookEndpoint, own: DestinationState, whole: DestinationState, days: float) -> State:
    paused = own if own.paused_at else whole  # pausing the destination pauses its endpoints
    alone = own.open_until if own.open_until and own.open_until > timezone.now() else None
    since = max(own.failing_since, row.enabled_at) if own.failing_since and _fails(own) else None
    return State(
        paused.paused_at, paused.paused_note if paused.paused_at else "", alone, since,
        since + timedelta(days=days) if since and days else None, own.error if since or alone else "",
    )  # fmt: skip


def _fails(state: DestinationState) -> bool:
    """Whether it is failing. If it only waits, because it asked to or because of a problem of the project, the wait
    began after its last failure."""
    return bool(state.failing_since and state.failed_at and state.failing_since <= state.failed_at)


def _days(served: Subscription) -> float:
    try:
        return float(getattr(served.destination(), "disable_after_days", 0.0))
    except DueboxError:  # a package is missing, which a list does not need
        return 0.0


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
