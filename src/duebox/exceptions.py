"""What can go wrong, one tree.

DueboxError
├── InvalidEvent            the event cannot be stored as given
│   ├── InvalidPayload      … because of a value in its data; names the path
│   └── IdempotencyConflict the key was used before for something else
├── InvalidSchedule         there is nothing to plan, or nothing left to come
├── InvalidPlan             a plan or a sweep is declared wrongly
├── InvalidSubscriber       a handler cannot be registered as given
├── NotReady                Duebox cannot run here yet; names the repair
├── LeaseLost               this worker no longer owns what it was working on
├── EndlessDrain            handlers kept emitting; a test would never end
└── Permanent               raise it in a handler: no retry can help
"""

from __future__ import annotations


class DueboxError(Exception):
    """Anything Duebox raises on purpose."""


class InvalidEvent(DueboxError, ValueError):
    """The event cannot be stored as given."""


class InvalidPayload(InvalidEvent):
    """A value in the event's data cannot travel."""

    def __init__(self, path: str, fact: str, repair: str) -> None:
        self.path = path
        super().__init__(f"{path}: {fact}; {repair}.")


class IdempotencyConflict(InvalidEvent):
    """The idempotency key was used before for a different event."""

    def __init__(self, type: str, key: str, differs: list[str], first_id: object) -> None:
        self.differs = differs
        self.first_id = first_id
        super().__init__(
            f"Event {type!r} with key {key!r} was already emitted as {first_id} with a different "
            f"{', '.join(differs)}; use another key, or pass on_conflict='first' to take the first one."
        )


class InvalidSchedule(DueboxError, ValueError):
    """The schedule cannot be kept as given."""


class InvalidPlan(DueboxError, ValueError):
    """A plan or a sweep is declared wrongly."""


class InvalidSubscriber(DueboxError, ValueError):
    """A handler cannot be registered as given."""


class NotReady(DueboxError, RuntimeError):
    """Duebox cannot run here yet."""


class LeaseLost(DueboxError):
    """The worker's lease ran out, so another worker may own its deliveries by now."""


class EndlessDrain(DueboxError, AssertionError):
    """Handlers kept emitting events that they react to."""


class Permanent(DueboxError):
    """Raise it in a handler when no retry can help: the delivery goes to the dead letters at once."""
