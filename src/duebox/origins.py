"""Where work comes from: a request, or what a script, a job or a Celery task says about itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from duebox import headers, logs, tracing
from duebox.conf import conf
from duebox.context import Origin, Who, origin
from duebox.exceptions import InvalidEvent
from duebox.fact import Actor
from duebox.identities import USER, actor_of
from duebox.ids import uuid7

if TYPE_CHECKING:
    from django.http import HttpRequest

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("duebox.requests")


def bound(*, correlation_id: str | None = None, actor: object = None) -> Bound:
    """Everything in this block belongs to one story: its events, audit entries and log lines.

    What is not given stays as it is around the block; where there is nothing around it, a fresh correlation id is
    made. `actor` is given as in `emit`. Works as a decorator of plain functions too, then every call is a story.
    """
    return Bound(correlation_id, actor)


class Bound:
    """A story to enter, once or by every call of a function."""

    def __init__(self, correlation_id: str | None, actor: object) -> None:
        self._given = (correlation_id, actor)
        self._inside: list[AbstractContextManager[Origin]] = []

    def __enter__(self) -> Origin:
        self._inside.append(_bound(*self._given))
        return self._inside[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self._inside.pop().__exit__(*error)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if iscoroutinefunction(function) or isgeneratorfunction(function) or isasyncgenfunction(function):
            raise TypeError(
                f"bound() cannot be put above {function.__qualname__}, which runs after its call is over; "
                "write `with bound(...):` inside of it."
            )

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            with _bound(*self._given):
                return function(*args, **options)

        return call


@contextmanager
def _bound(correlation_id: str | None, actor: object) -> Iterator[Origin]:
    if correlation_id is not None and (reason := headers.why_not(correlation_id)):
        raise InvalidEvent(
            f"correlation_id={headers.shown(correlation_id)} cannot be bound ({reason}); pass 1 to 128 letters, digits "
            "and ._:- that begin with a letter or digit, or leave it out for a fresh one."
        )
    here = origin.get() or Origin(correlation_id or str(uuid7()))
    here = replace(here, correlation_id=correlation_id or here.correlation_id)
    if actor is not None:
        who = Who(actor=actor_of(actor))
        here = replace(here, who=lambda: who)
    with entered(here):
        yield here


@contextmanager
def entered(here: Origin) -> Iterator[None]:
    token = origin.set(here)
    try:
        with logs.in_structlog(correlation_id=here.correlation_id):
            yield
    finally:
        origin.reset(token)


def of_request(request: HttpRequest) -> Origin:
    """What a request says about itself, as far as it can be believed."""
    said, settings = request.META, conf()
    ip = headers.client_ip(
        said.get("REMOTE_ADDR") or "",
        said.get("HTTP_X_FORWARDED_FOR") or "",
        trusted_proxies=settings.TRUSTED_PROXIES,
    )
    incoming = said.get("HTTP_TRACEPARENT") if settings.TRUST_TRACEPARENT else None
    return Origin(
        correlation_id=_correlation_id(said.get("HTTP_X_CORRELATION_ID") or "", ip),
        ip=ip,
        user_agent=headers.user_agent(said.get("HTTP_USER_AGENT") or ""),
        traceparent=tracing.of_open_span() or str(tracing.parse(incoming) or ""),
        who=lambda: who_asks(request),
    )


def who_asks(request: HttpRequest) -> Who:
    """The user of a request, and the one behind them where django-impersonate or django-hijack is at work."""
    return Who(_of_user(getattr(request, "user", None)), _impersonator(request))


def _correlation_id(given: str, ip: str) -> str:
    if given and not (reason := headers.why_not(given)):
        return given
    fresh = str(uuid7())
    if given:
        logger.warning(
            "correlation id refused: reason=%s length=%d value=%s ip=%s instead=%s",
            reason, len(given), headers.shown(given), ip, fresh,
        )  # fmt: skip
    return fresh


def _impersonator(request: HttpRequest) -> Actor | None:
    if behind := _of_user(getattr(request, "impersonator", None)):
        return behind
    session = getattr(request, "session", None)
    history = session.get("hijack_history") if session is not None else None
    # Somebody may have gone on from one user to the next; the first in the row is the person at the keyboard.
    return Actor(USER, str(history[0])) if history else None


def _of_user(user: Any) -> Actor | None:
    # One that is not saved has been made for this request, and has no id.
    return actor_of(user) if getattr(user, "is_authenticated", False) and user.pk is not None else None
