"""All exceptions that Duebox raises.

DueboxError
├── InvalidEvent            the event cannot be stored as given
│   ├── InvalidPayload      … because of a value in its data; names the path
│   ├── UndeclaredEvent     … because its type is not declared
│   └── IdempotencyConflict the key was used before for something else
├── InvalidContract         an event type is declared wrongly
├── UnsupportedVersion      a stored event has a version that this code does not know
├── OutsideTransaction      a call that needs a transaction was made outside of one
├── InvalidSchedule         a schedule is invalid, or has no occurrence left
├── InvalidPlan             a plan or a sweep is declared wrongly
├── InvalidSubscriber       a handler cannot be registered as given
├── InvalidAudit            an audit entry or the audit policy of a model is invalid
├── AuditHeadChanged        the head of the audit log was changed by something else, so nothing is sealed
├── InvalidDestination      a destination cannot be used as it is configured
├── InvalidEndpoint         a webhook endpoint cannot be stored as given
├── InvalidReplay           events cannot be replayed as requested
├── InvalidAction           deliveries cannot be changed as requested
├── InvalidErasure          personal data cannot be erased while something is still open
├── NotFound                nothing is stored under the requested name or id
├── InvalidPattern          an event pattern is invalid; names the path
├── InvalidSecret           a webhook secret or key is invalid
├── InvalidSignature        the signature of a received webhook is invalid or too old
├── InvalidGuard            the URL guard of webhooks is configured wrongly
├── NotReady                Duebox is not set up yet; names the repair
├── LeaseLost               this worker no longer owns what it was working on
├── HandlerTimeout          a handler took longer than its timeout
├── EndlessDrain            handlers emit events without end; a test would never finish
├── Undelivered             a destination did not accept an event; a retry may help
│   ├── Throttled           … and asks for a pause before the next attempt
│   └── Blocked             … because webhooks to this address are not allowed
├── WhenError               a time, zone or rule cannot be used; the tree below it is in duebox.when
└── Permanent               raise it in a handler when no retry can help
    ├── Refused             a destination will never accept this event
    └── TooLarge            an event is larger than a destination accepts
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "AuditHeadChanged", "Blocked", "DueboxError", "EndlessDrain", "HandlerTimeout", "IdempotencyConflict",
    "InvalidAction", "InvalidAudit", "InvalidContract", "InvalidDestination", "InvalidEndpoint", "InvalidErasure",
    "InvalidEvent", "InvalidGuard", "InvalidPattern", "InvalidPayload", "InvalidPlan", "InvalidReplay",
    "InvalidSchedule", "InvalidSecret", "InvalidSignature", "InvalidSubscriber", "LeaseLost", "NotFound",
    "NotReady", "OutsideTransaction", "OutsideTransactionWarning", "Permanent", "Refused", "Throttled", "TooLarge",
    "UndeclaredEvent", "Undelivered", "UnsupportedVersion",
]  # fmt: skip

A_DAY = 86_400.0


def did_you_mean(name: object, known: Iterable[str], *, cutoff: float = 0.6, capital: bool = False) -> str:
    """A hint such as "did you mean 'order.paid'?" with the closest known name; empty if none is close."""
    near = get_close_matches(str(name), [*known], n=1, cutoff=cutoff)
    return f"{'Did' if capital else 'did'} you mean {near[0]!r}?" if near else ""


class DueboxError(Exception):
    """Base class of all exceptions that Duebox raises."""


class InvalidEvent(DueboxError, ValueError):
    """The event cannot be stored as given."""


class InvalidPayload(InvalidEvent):
    """A value in the event's data cannot be stored as JSON, or does not match the schema."""

    def __init__(self, path: str, fact: str, repair: str) -> None:
        self.path = path
        super().__init__(f"{path}: {fact}; {repair}.")


class UndeclaredEvent(InvalidEvent):
    """The event type is not declared."""


class IdempotencyConflict(InvalidEvent):
    """The idempotency key was used before for a different event."""

    def __init__(self, type: str, key: str, differs: list[str], first_id: object) -> None:
        self.differs = differs
        self.first_id = first_id
        super().__init__(
            f"Event {type!r} with key {key!r} was already emitted as {first_id} with a different "
            f"{', '.join(differs)}; use another key, or pass on_conflict='first' to take the first one."
        )


class InvalidContract(DueboxError, ValueError):
    """An event type is declared wrongly."""


class UnsupportedVersion(DueboxError):
    """A stored event has a version that this code does not know. A handler that branches on the version may raise it
    too."""

    def __init__(self, type: str, version: int, known: str = "", repair: str = "") -> None:
        self.type, self.version = type, version
        repair = repair or "deploy the code that declares it, or declare the next version with upcast="
        super().__init__(f"Event {type!r} has version {version}, which nothing here reads{known}; {repair}.")


class OutsideTransaction(DueboxError, RuntimeError):
    """`emit` or `schedule` was called outside of a transaction, and DUEBOX["OUTSIDE_TRANSACTION"] is "refuse"."""


class OutsideTransactionWarning(RuntimeWarning):
    """The warning for such a call if DUEBOX["OUTSIDE_TRANSACTION"] is "warn"."""


class InvalidSchedule(DueboxError, ValueError):
    """The schedule is invalid, or has no occurrence left."""


class InvalidPlan(DueboxError, ValueError):
    """A plan or a sweep is declared wrongly."""


class InvalidSubscriber(DueboxError, ValueError):
    """A handler cannot be registered as given."""


class InvalidAudit(DueboxError, ValueError):
    """An audit entry or the audit policy of a model is invalid."""


class AuditHeadChanged(DueboxError):
    """The head of the audit log was changed by something other than Duebox, so nothing is sealed."""


class InvalidDestination(DueboxError, ValueError):
    """A destination cannot be used as it is configured."""


class InvalidEndpoint(DueboxError, ValueError):
    """A webhook endpoint cannot be stored as given."""


class InvalidReplay(DueboxError, ValueError):
    """Events cannot be replayed as requested."""


class InvalidAction(DueboxError, ValueError):
    """Deliveries cannot be found, retried, parked or discarded as requested."""


class InvalidErasure(DueboxError, ValueError):
    """Personal data cannot be erased: something about the row is still to be delivered or to fire."""


class NotFound(DueboxError, LookupError):
    """Nothing is stored under the requested name or id. The message names what was looked for."""


class InvalidPattern(DueboxError, ValueError):
    """An event pattern is invalid."""

    def __init__(self, path: str, fact: str, repair: str) -> None:
        self.path = path
        super().__init__(f"{path}: {fact}; {repair}.")


class InvalidSecret(DueboxError, ValueError):
    """A webhook secret or key is invalid. The message never contains it."""


class InvalidSignature(DueboxError, ValueError):
    """The signature of a received webhook is invalid or too old."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class InvalidGuard(DueboxError, ValueError):
    """The URL guard of webhooks is configured wrongly."""


class NotReady(DueboxError, RuntimeError):
    """Duebox is not set up in this project yet."""


class LeaseLost(DueboxError):
    """The worker's lease ran out, so another worker may own its deliveries by now."""


class HandlerTimeout(DueboxError, TimeoutError):
    """A handler took longer than its `timeout`. It counts as a failed attempt."""


class EndlessDrain(DueboxError, AssertionError):
    """Handlers emit events that they handle themselves, without end."""


class Undelivered(DueboxError):
    """The destination did not accept an event; a retry may help. `status` is the HTTP status, if there is one."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(reason)


class Throttled(Undelivered):
    """The destination is too busy. It may say how long to wait before the next attempt: a day at most."""

    def __init__(self, reason: str, *, seconds: float = 0.0, status: int | None = None) -> None:
        self.seconds = min(max(0.0, seconds), A_DAY) if seconds == seconds else 0.0
        super().__init__(reason, status=status)


class Blocked(Undelivered, ValueError):
    """Webhooks to this address are not allowed. The message names only the host and the address: the path of a URL may
    be secret.

    The endpoint is at fault and not the event, which is retried: the host may resolve to another address later. An
    endpoint that stays blocked is disabled in the end."""

    def __init__(self, reason: str, *, option: str = "") -> None:
        self.reason = reason
        self.option = option
        """The destination option that would allow it. Not part of the message, which customers may read."""
        super().__init__(reason)


class Permanent(DueboxError):
    """Raise it in a handler when no retry can help: the delivery goes to the dead letters at once."""


class Refused(Permanent):
    """The destination will never accept this event. `status` is the HTTP status, if there is one."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(reason)


class TooLarge(Permanent):
    """An event is larger than the destination accepts."""

    def __init__(self, size: int, limit: int, what: str = "The event") -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"{what} has {size:,} bytes, and {limit:,} are allowed; keep large data elsewhere and send a reference."
        )
