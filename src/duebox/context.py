"""What is being handled right now, so that events emitted on the way know what caused them, and where to go."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from duebox.fact import Fact


class Handling(NamedTuple):
    fact: Fact
    using: str
    """The database that is being served; what the handler emits belongs into the same transaction."""


handling: ContextVar[Handling | None] = ContextVar("duebox_handling", default=None)
