"""What is going on right now: the event that is being handled, and the request or job that all of it comes from.

Events and audit entries written on the way learn from here what caused them, who asked, and where they belong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from duebox.fact import Fact


class Handling(NamedTuple):
    fact: Fact
    using: str
    """The database that is being served; what the handler emits belongs into the same transaction."""


class Who(NamedTuple):
    """Who asks, and who really asks, where somebody acts in another one's name."""

    actor: str = ""
    impersonator: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where work comes from: a request, or whatever a program says about itself."""

    correlation_id: str
    ip: str = ""
    user_agent: str = ""
    traceparent: str = ""
    who: Callable[[], Who] = Who
    """Asked only when somebody needs it: to know the user of a request may take a query."""


handling: ContextVar[Handling | None] = ContextVar("duebox_handling", default=None)
origin: ContextVar[Origin | None] = ContextVar("duebox_origin", default=None)


def correlation_id() -> str:
    """Of the event that is being handled, else of the request or job; nothing where nobody said one."""
    if current := handling.get():
        return current.fact.correlation_id
    here = origin.get()
    return here.correlation_id if here else ""
