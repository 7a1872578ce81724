"""How one delivery ended, as values.

A handler returns nothing, `Snooze` or `Discard`, or raises; the worker turns that into one of the values here,
and the store writes it down. Running and writing never mix.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebox.exceptions import Permanent

Errors = tuple[type[BaseException], ...]

LONGEST = timedelta(days=36_525)
"""A delay of more than a century is a mistake, and PostgreSQL's calendar ends somewhere."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """Return it from a handler: come back later. Burns no attempt.

    `until` is an aware datetime, or a timedelta from now on the database's clock.
    """

    until: datetime | timedelta

    def __post_init__(self) -> None:
        if isinstance(self.until, datetime) and self.until.tzinfo is None:
            raise ValueError(
                f"Snooze(until={self.until!r}) is naive; pass an aware datetime, "
                "such as django.utils.timezone.now() + timedelta(...)."
            )
        if not isinstance(self.until, datetime | timedelta):
            raise TypeError(f"Snooze(until={self.until!r}) must be an aware datetime or a timedelta.")
        if isinstance(self.until, timedelta) and abs(self.until) > LONGEST:
            raise ValueError(f"Snooze(until={self.until!r}) is longer than a century; return Discard(reason) instead.")


@dataclass(frozen=True, slots=True)
class Discard:
    """Return it from a handler: this event needs no reaction any more. Recorded with the reason."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise TypeError(f"Discard(reason={self.reason!r}) must be a text that says why.")


@dataclass(frozen=True, slots=True)
class Retried:
    """The handler failed; try again after a delay. What was not its fault burns no attempt."""

    after_seconds: float
    error: BaseException
    burns: bool = True


@dataclass(frozen=True, slots=True)
class Dead:
    """The handler failed and no retry is left, or none can help."""

    error: BaseException
    leaves_stream: bool = False


Outcome = Snooze | Discard | Retried | Dead | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When to try again: 1, 2, 4 minutes by default, then dead.

    `limit` retries follow the first attempt; each waits `factor` times as long as the one before, at most `cap`
    seconds, spread by `jitter` (0.1 is ±10 %) so that a crowd that failed together does not return together.
    Errors are transient unless their class, or the nearest class above it, is named in `permanent`.
    """

    limit: int = 3
    first: float = 60.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.1
    permanent: Errors = ()
    transient: Errors = ()

    def __post_init__(self) -> None:
        if not (0 <= self.limit <= 10_000 and 1 <= self.factor <= 1_000):
            raise ValueError(f"{self!r}: limit must be from 0 to 10,000 and factor from 1 to 1,000.")
        if not (0 <= self.first <= LONGEST.total_seconds() and 0 <= self.cap <= LONGEST.total_seconds()):
            raise ValueError(f"{self!r}: first and cap are seconds, from 0 up to a century.")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"{self!r}: jitter is a share from 0 up to, not including, 1.")
        if not (isinstance(self.permanent, tuple) and isinstance(self.transient, tuple)):
            raise ValueError(f"{self!r}: permanent and transient are tuples of error classes, as in (KeyError,).")

    def outcome(self, error: BaseException, attempt: int) -> Retried | Dead:
        """What follows when attempt number `attempt` (the first is 1) failed with `error`."""
        if attempt > self.limit or self._is_permanent(error):
            return Dead(error)
        return Retried(self.delay(attempt), error)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt`."""
        # The exponent is bounded so that a limit of thousands cannot overflow a float.
        plain = min(self.cap, self.first * self.factor ** min(attempt - 1, 64))
        return plain * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - not a secret

    def _is_permanent(self, error: BaseException) -> bool:
        for cls in type(error).__mro__:
            if cls in self.transient:
                return False
            if cls in self.permanent or cls is Permanent:
                return True
        return False
