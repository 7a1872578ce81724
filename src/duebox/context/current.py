"""The current context: the event that is being handled, and the request or job that it comes from.

Events and audit entries take their causation id, actor and correlation id from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.core.exceptions import SynchronousOnlyOperation

from duebox.events.fact import Actor, Fact

P = ParamSpec("P")
R = TypeVar("R")


class Handling(NamedTuple):
    fact: Fact
    using: str
    """The database of the delivery; events that the handler emits belong into the same transaction."""


class Who(NamedTuple):
    """The actor, and the impersonator if a user acts in another user's name."""

    actor: Actor | None = None
    impersonator: Actor | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of work: a request, or values that a program has set with `bound`."""

    correlation_id: str
    ip: str = ""
    user_agent: str = ""
    traceparent: str = ""
    who: Callable[[], Who] = Who
    """Called only when needed: loading the user of a request may take a query."""


class CallSite(NamedTuple):
    """The line that called an async function: its work runs in another thread, where the caller is not on the stack."""

    name: str
    filename: str
    line: int
    module: dict[str, Any]


handling: ContextVar[Handling | None] = ContextVar("duebox_handling", default=None)
origin: ContextVar[Origin | None] = ContextVar("duebox_origin", default=None)
call_site: ContextVar[CallSite | None] = ContextVar("duebox_call_site", default=None)


@contextmanager
def detached() -> Iterator[None]:
    """Clear the current event and request: schedules of Duebox itself belong to none of them."""
    tokens = handling.set(None), origin.set(None)
    try:
        yield
    finally:
        handling.reset(tokens[0])
        origin.reset(tokens[1])


def correlation_id() -> str:
    """The correlation id of the event that is being handled, otherwise of the request or job; empty if there is
    none."""
    if current := handling.get():
        return current.fact.correlation_id
    here = origin.get()
    return here.correlation_id if here else ""


def asked_by() -> str:
    """The actor for the history: that of the event being handled, of the request or of the `bound` block."""
    current, here = handling.get(), origin.get()
    actor = current.fact.actor if current else here.who().actor if here else None
    return f"by {actor}" if actor else ""


def names_async_form(function: Callable[P, R]) -> Callable[P, R]:
    """In async code, raise an error that names the async function to await instead."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except SynchronousOnlyOperation as error:
            name = function.__name__
            raise SynchronousOnlyOperation(
                f"duebox.{name}() cannot use the database in async code; write `await duebox.a{name}(...)`, or call it "
                "together with your changes in a plain function that `await duebox.atomically(...)` runs."
            ) from error

    return call
