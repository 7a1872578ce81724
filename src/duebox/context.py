"""What is going on right now: the event that is being handled, and the request or job that all of it comes from.

Events and audit entries written on the way learn from here what caused them, who asked, and where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.core.exceptions import SynchronousOnlyOperation

from duebox.fact import Actor, Fact

P = ParamSpec("P")
R = TypeVar("R")


class Handling(NamedTuple):
    fact: Fact
    using: str
    """The database that is being served; what the handler emits belongs into the same transaction."""


class Who(NamedTuple):
    """Who asks, and who really asks, where somebody acts in another one's name."""

    actor: Actor | None = None
    impersonator: Actor | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where work comes from: a request, or whatever a program says about itself."""

    correlation_id: str
    ip: str = ""
    user_agent: str = ""
    traceparent: str = ""
    who: Callable[[], Who] = Who
    """Asked only when somebody needs it: to know the user of a request may take a query."""


class CallSite(NamedTuple):
    """Which line called an async form: its function runs in another thread, where the caller is not on the stack."""

    name: str
    filename: str
    line: int
    module: dict[str, Any]


handling: ContextVar[Handling | None] = ContextVar("duebox_handling", default=None)
origin: ContextVar[Origin | None] = ContextVar("duebox_origin", default=None)
call_site: ContextVar[CallSite | None] = ContextVar("duebox_call_site", default=None)


@contextmanager
def detached() -> Iterator[None]:
    """Without the event and the request around: what Duebox schedules for itself belongs to none of them."""
    tokens = handling.set(None), origin.set(None)
    try:
        yield
    finally:
        handling.reset(tokens[0])
        origin.reset(tokens[1])


def correlation_id() -> str:
    """Of the event that is being handled, else of the request or job; nothing where nobody said one."""
    if current := handling.get():
        return current.fact.correlation_id
    here = origin.get()
    return here.correlation_id if here else ""


def names_async_form(function: Callable[P, R]) -> Callable[P, R]:
    """Where a function is called in async code, the error says which other one to await."""

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
