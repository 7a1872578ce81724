"""What can go wrong, one tree.

DueboxError
├── InvalidEvent            the event cannot be stored as given
│   ├── InvalidPayload      … because of a value in its data; names the path
│   ├── UndeclaredEvent     … because nobody declared its type
│   └── IdempotencyConflict the key was used before for something else
├── InvalidContract         an event type is declared wrongly
├── UnsupportedVersion      a stored event has a version that this code does not know
├── OutsideTransaction      a call that belongs into a transaction was made outside of one
├── InvalidSchedule         there is nothing to plan, or nothing left to come
├── InvalidPlan             a plan or a sweep is declared wrongly
├── InvalidSubscriber       a handler cannot be registered as given
├── InvalidAudit            an audit entry cannot be written, or a model not followed, as given
├── InvalidDestination      a destination cannot be used as it is configured
├── InvalidEndpoint         an endpoint of webhooks cannot be stored as given
├── InvalidReplay           what was asked to be sent again cannot be
├── InvalidAction           deliveries cannot be dealt with as asked
├── InvalidPattern          a pattern of events cannot be meant as written; names the path
├── InvalidSecret           a webhook's secret or key cannot be used as given
├── InvalidSignature        what was received is not from whom it claims to be, or too old
├── InvalidGuard            the guard of webhook addresses is configured wrongly
├── NotReady                Duebox cannot run here yet; names the repair
├── LeaseLost               this worker no longer owns what it was working on
├── HandlerTimeout          a handler took longer than its timeout
├── EndlessDrain            handlers kept emitting; a test would never end
├── Undelivered             the other side did not take an event; another try may help
│   ├── Throttled           … and asks not to be tried again for a while
│   └── Blocked             … because a webhook may not be sent there
├── WhenError               a time, zone or rule cannot be used; the tree below it is in duebox.when.errors
└── Permanent               raise it in a handler: no retry can help
    ├── Refused             the other side will never take this event
    └── TooLarge            an event is larger than the other side takes
"""

from __future__ import annotations

A_DAY = 86_400.0


class DueboxError(Exception):
    """Anything Duebox raises on purpose."""


class InvalidEvent(DueboxError, ValueError):
    """The event cannot be stored as given."""


class InvalidPayload(InvalidEvent):
    """A value in the event's data cannot travel."""

    def __init__(self, path: str, fact: str, repair: str) -> None:
        self.path = path
        super().__init__(f"{path}: {fact}; {repair}.")


class UndeclaredEvent(InvalidEvent):
    """Nobody declared this type of event."""


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
    """A stored event has a version that this code does not know. Raise it yourself where a handler branches."""

    def __init__(self, type: str, version: int, known: str = "", repair: str = "") -> None:
        self.type, self.version = type, version
        repair = repair or "deploy the code that declares it, or declare the next version with upcast="
        super().__init__(f"Event {type!r} has version {version}, which nothing here reads{known}; {repair}.")


class OutsideTransaction(DueboxError, RuntimeError):
    """`emit` or `schedule` was called outside of a transaction, and DUEBOX["OUTSIDE_TRANSACTION"] is "refuse"."""


class OutsideTransactionWarning(RuntimeWarning):
    """The same where DUEBOX["OUTSIDE_TRANSACTION"] is "warn"."""


class InvalidSchedule(DueboxError, ValueError):
    """The schedule cannot be kept as given."""


class InvalidPlan(DueboxError, ValueError):
    """A plan or a sweep is declared wrongly."""


class InvalidSubscriber(DueboxError, ValueError):
    """A handler cannot be registered as given."""


class InvalidAudit(DueboxError, ValueError):
    """An audit entry cannot be written, or a model not followed, as given."""


class InvalidDestination(DueboxError, ValueError):
    """A destination cannot be used as it is configured."""


class InvalidEndpoint(DueboxError, ValueError):
    """An endpoint of webhooks cannot be stored as given."""


class InvalidReplay(DueboxError, ValueError):
    """Events cannot be sent again as asked."""


class InvalidAction(DueboxError, ValueError):
    """Deliveries cannot be found, retried, parked or discarded as asked."""


class InvalidPattern(DueboxError, ValueError):
    """A pattern of events cannot be meant as written."""

    def __init__(self, path: str, fact: str, repair: str) -> None:
        self.path = path
        super().__init__(f"{path}: {fact}; {repair}.")


class InvalidSecret(DueboxError, ValueError):
    """A webhook's secret or key cannot be used as given. The message never holds it."""


class InvalidSignature(DueboxError, ValueError):
    """What was received is not from whom it claims to be, or too old."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class InvalidGuard(DueboxError, ValueError):
    """The guard of webhook addresses is configured wrongly."""


class NotReady(DueboxError, RuntimeError):
    """Duebox cannot run here yet."""


class LeaseLost(DueboxError):
    """The worker's lease ran out, so another worker may own its deliveries by now."""


class HandlerTimeout(DueboxError, TimeoutError):
    """A handler took longer than its `timeout`. It counts as a failed attempt."""


class EndlessDrain(DueboxError, AssertionError):
    """Handlers kept emitting events that they react to."""


class Undelivered(DueboxError):
    """The other side did not take an event; another try may help. `status` is that of an HTTP answer."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(reason)


class Throttled(Undelivered):
    """The other side has too much to do, and says for how long it wants to be left alone: a day at most."""

    def __init__(self, reason: str, *, seconds: float = 0.0, status: int | None = None) -> None:
        self.seconds = min(max(0.0, seconds), A_DAY) if seconds == seconds else 0.0
        super().__init__(reason, status=status)


class Blocked(Undelivered, ValueError):
    """A webhook may not be sent there. Says the host and the address at most: the path of a URL may be a secret.

    It speaks against the endpoint and not against the event, which waits: a name may lead elsewhere again. An endpoint
    that stays blocked is disabled in the end."""

    def __init__(self, reason: str, *, option: str = "") -> None:
        self.reason = reason
        self.option = option
        """The option of the destination that would allow it. Not part of the text, which customers may read."""
        super().__init__(reason)


class Permanent(DueboxError):
    """Raise it in a handler when no retry can help: the delivery goes to the dead letters at once."""


class Refused(Permanent):
    """The other side will never take this event. `status` is that of an HTTP answer."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(reason)


class TooLarge(Permanent):
    """An event is larger than the other side takes."""

    def __init__(self, size: int, limit: int, what: str = "The event") -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"{what} has {size:,} bytes, and {limit:,} are allowed; keep large data elsewhere and send a reference."
        )
