"""The outcomes of a delivery, as values.

A handler returns nothing, or it returns or raises `Snooze`, `Discard` or `Permanent`, or it fails. A destination does
the same, and returns `Delivered` to add a note to the history. The worker turns each of these into one of the values
here, and the store writes it. Running a handler and writing its outcome are separate steps.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebox.exceptions import A_DAY, Permanent, Throttled

Errors = tuple[type[BaseException], ...]

LONGEST = timedelta(days=36_525)
"""A longer delay is a mistake, and may exceed the range of PostgreSQL's timestamps."""


class Answer(Exception):
    """A handler may return or raise it, for an outcome that is neither success nor failure.

    It is an exception so that it can be raised from any depth; two with the same arguments are equal. The writes of an
    atomic handler are committed when it returns one, and rolled back when it raises one.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class Snooze(Answer):
    """Return or raise it in a handler to run the delivery again later. It uses up no attempt.

    `until` is an aware datetime, or a timedelta from now on the database's clock.
    """

    __match_args__ = ("until",)

    def __init__(self, until: datetime | timedelta) -> None:
        if isinstance(until, datetime) and until.tzinfo is None:
            raise ValueError(
                f"Snooze(until={until!r}) is naive; pass an aware datetime, "
                "such as django.utils.timezone.now() + timedelta(...)."
            )
        if not isinstance(until, datetime | timedelta):
            raise TypeError(f"Snooze(until={until!r}) must be an aware datetime or a timedelta.")
        if isinstance(until, timedelta) and abs(until) > LONGEST:
            raise ValueError(f"Snooze(until={until!r}) is longer than a century; return Discard(reason) instead.")
        super().__init__(until)
        self.until = until


class Discard(Answer):
    """Return or raise it in a handler if the event needs no handling any more. The reason is added to the history."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str) -> None:
        if not isinstance(reason, str):
            raise TypeError(f"Discard(reason={reason!r}) must be a text that says why.")
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Delivered:
    """Return it to add the answer of the destination to the history."""

    note: str = ""
    status: int | None = None
    """The HTTP status, if there is one."""

    def __post_init__(self) -> None:
        if not isinstance(self.note, str):
            raise TypeError(f"Delivered(note={self.note!r}) must be a text.")


@dataclass(frozen=True, slots=True)
class Expired:
    """The event expired before the handler started."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Retried:
    """The handler failed; try again after a delay. A failure that is not its fault uses up no attempt."""

    after_seconds: float
    error: BaseException
    uses_attempt: bool = True
    """Whether it counts towards the limit of the retry policy."""
    rescued: bool = False
    """The delivery may have caused a failure of the worker. After a few of those it runs alone."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The handler failed and no retry is left, or none can help."""

    error: BaseException
    leaves_stream: bool = False


Outcome = Delivered | Snooze | Discard | Expired | Retried | Dead | None
"""None means "delivered", without a note."""

_NAMES: dict[type, str] = {
    type(None): "delivered",
    Delivered: "delivered",
    Discard: "discarded",
    Expired: "expired",
    Snooze: "snoozed",
    Retried: "retried",
    Dead: "dead",
}


def outcome_name(outcome: Outcome) -> str:
    """The name of an outcome in the history, in metrics and in the counts of a worker. Subclasses have that of their
    base class."""
    return _NAMES.get(type(outcome)) or next(name for kind, name in _NAMES.items() if isinstance(outcome, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When to try again: 1, 2, 4 minutes by default, then dead.

    `limit` retries follow the first attempt; each waits `factor` times as long as the one before, at most `cap`
    seconds, spread by `jitter` (0.1 is ±10 %) so that deliveries that failed together are not all retried at the same
    time. `delays` lists the waits explicitly instead. Errors are transient unless their class, or the nearest class
    above it, is named in `permanent`.
    """

    limit: int = 3
    first: float = 60.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.1
    permanent: Errors = ()
    transient: Errors = ()
    delays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.delays:
            if not all(0 <= each <= LONGEST.total_seconds() for each in self.delays):
                raise ValueError(f"{self!r}: delays are seconds, from 0 up to a century.")
            object.__setattr__(self, "limit", len(self.delays))
        if not (0 <= self.limit <= 10_000 and 1 <= self.factor <= 1_000):
            raise ValueError(f"{self!r}: limit must be from 0 to 10,000 and factor from 1 to 1,000.")
        if not (0 <= self.first <= LONGEST.total_seconds() and 0 <= self.cap <= LONGEST.total_seconds()):
            raise ValueError(f"{self!r}: first and cap are seconds, from 0 up to a century.")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"{self!r}: jitter is a share from 0 up to, not including, 1.")
        if not (isinstance(self.permanent, tuple) and isinstance(self.transient, tuple)):
            raise ValueError(f"{self!r}: permanent and transient are tuples of error classes, as in (KeyError,).")

    def outcome(self, error: BaseException, attempt: int, age: float = math.inf) -> Retried | Dead:
        """The outcome when attempt number `attempt` (the first is 1) failed with `error`; `age` is that of the event in
        seconds."""
        if isinstance(error, Throttled) and age < self.longest_throttling:
            # The destination works but is busy, which is not a failure. If it does not say how long to wait, the waits
            # grow.
            wait = error.seconds or max(self.delay(attempt), min(age / 8, self.longest))
            return Retried(wait, error, uses_attempt=False)
        if attempt > self.limit or self._is_permanent(error):
            return Dead(error)
        if isinstance(error, Throttled):
            return Retried(max(self.delay(attempt), error.seconds), error)
        return Retried(self.delay(attempt), error)

    @property
    def longest(self) -> float:
        """The longest wait between two attempts, in seconds."""
        return max(self.delays) if self.delays else min(self.cap, self.first * self.factor ** min(self.limit, 64))

    @property
    def longest_throttling(self) -> float:
        """How many seconds a busy destination may put off an event; after that it counts as a failure."""
        return max(sum(self.delays), A_DAY)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt`."""
        if self.delays:
            plain = self.delays[min(attempt, len(self.delays)) - 1]
        else:  # the exponent is bounded so that a limit of thousands cannot overflow a float
            plain = min(self.cap, self.first * self.factor ** min(attempt - 1, 64))
        return plain * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - not a secret

    def _is_permanent(self, error: BaseException) -> bool:
        for cls in type(error).__mro__:
            if cls in self.transient:
                return False
            if cls in self.permanent or cls is Permanent:
                return True
        return False
