"""The origin of work: a request, or the values that a script, a job or a Celery task sets; and the validation of
request headers.

The correlation id appears in every log line, event and response, so untrusted text must be validated first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from duebox.conf import conf
from duebox.context import logging as logs
from duebox.context import tracing
from duebox.context.current import Origin, Who, origin
from duebox.events.fact import Actor
from duebox.events.identities import USER, actor_of, uuid7
from duebox.exceptions import InvalidEvent

if TYPE_CHECKING:
    from django.http import HttpRequest

CORRELATION_ID = "X-Correlation-ID"

_LONGEST_ID = 128
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_LONGEST_AGENT = 256
_LONGEST_ADDRESS = 64
_LONGEST_SHOWN = 80
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_WITH_PORT = re.compile(r"\[(?P<six>[^\[\]]*)\](?::\d{1,5})?|(?P<four>[\d.]+):\d{1,5}", re.ASCII)


def why_not(correlation_id: str) -> str:
    """Why a correlation id is invalid, in one word; empty if it is valid."""
    if len(correlation_id) > _LONGEST_ID:  # before anything reads all of it
        return "length"
    if "," in correlation_id:
        # A header that comes twice is joined with a comma, by WSGI servers and by Django under ASGI.
        return "repeated"
    return "" if _ID.fullmatch(correlation_id) else "characters"


def shown(value: str) -> str:
    """Untrusted text for the log: one line of printable ASCII, at most 80 characters with its quotes."""
    text = ascii(value[:_LONGEST_SHOWN])
    whole = len(value) <= _LONGEST_SHOWN and len(text) <= _LONGEST_SHOWN
    return text if whole else text[: _LONGEST_SHOWN - 3] + "..."


def client_ip(remote: str, forwarded: str, *, trusted_proxies: int) -> str:
    """The address of the client; empty if it is not known.

    Every proxy appends the address of its caller to X-Forwarded-For. Only the entries of your own proxies can be
    trusted, so the client is as many places from the right as you have proxies. Entries further left may be forged.
    """
    if trusted_proxies < 1 or not forwarded:
        return _address(remote)
    hops = forwarded.rsplit(",", trusted_proxies)
    # Too short, or not an address: the request did not pass the configured proxies. No address is better than a wrong
    # one.
    return _address(hops[-trusted_proxies]) if len(hops) >= trusted_proxies else ""


def user_agent(text: str) -> str:
    return _CONTROL.sub("", text[:_LONGEST_AGENT])


def _address(text: str) -> str:
    """The normal form of an address: without port, brackets and zone, and IPv4 not mapped to IPv6."""
    text = text.strip(" \t")
    if len(text) > _LONGEST_ADDRESS:
        return ""
    if with_port := _WITH_PORT.fullmatch(text):
        text = with_port["six"] or with_port["four"] or ""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        # Built again from its number: a zone (fe80::1%eth0) may contain any text.
        return str(address.ipv4_mapped or IPv6Address(int(address)))
    return str(address)


P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("duebox.requests")


def bound(*, correlation_id: str | None = None, actor: object = None) -> Bound:
    """Set the correlation id and the actor of all events, audit entries and log lines of the block.

    Arguments that are left out keep the values around the block; if there is no correlation id, a new one is created.
    `actor` is that of `emit`. It also works as a decorator of plain functions, and then applies to each call.
    """
    return Bound(correlation_id, actor)


class Bound:
    """The context manager and decorator that `bound` returns."""

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
    if correlation_id is not None and (reason := why_not(correlation_id)):
        raise InvalidEvent(
            f"correlation_id={shown(correlation_id)} cannot be bound ({reason}); pass 1 to 128 letters, digits "
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
    """The origin of a request, from headers that were validated."""
    said, settings = request.META, conf()
    ip = client_ip(
        said.get("REMOTE_ADDR") or "",
        said.get("HTTP_X_FORWARDED_FOR") or "",
        trusted_proxies=settings.TRUSTED_PROXIES,
    )
    incoming = said.get("HTTP_TRACEPARENT") if settings.TRUST_TRACEPARENT else None
    return Origin(
        correlation_id=_correlation_id(said.get("HTTP_X_CORRELATION_ID") or "", ip),
        ip=ip,
        user_agent=user_agent(said.get("HTTP_USER_AGENT") or ""),
        traceparent=tracing.of_open_span() or str(tracing.parse(incoming) or ""),
        who=lambda: who_asks(request),
    )


def who_asks(request: HttpRequest) -> Who:
    """The user of a request, and the impersonator if django-impersonate or django-hijack is used."""
    return Who(_of_user(getattr(request, "user", None)), _impersonator(request))


def _correlation_id(given: str, ip: str) -> str:
    if given and not (reason := why_not(given)):
        return given
    fresh = str(uuid7())
    if given:
        logger.warning(
            "correlation id refused: reason=%s length=%d value=%s ip=%s instead=%s",
            reason, len(given), shown(given), ip, fresh,
        )  # fmt: skip
    return fresh


def _impersonator(request: HttpRequest) -> Actor | None:
    if behind := _of_user(getattr(request, "impersonator", None)):
        return behind
    session = getattr(request, "session", None)
    history = session.get("hijack_history") if session is not None else None
    # A hijacker may switch from one user to the next; the first in the list is the real user.
    return Actor(USER, str(history[0])) if history else None


def _of_user(user: Any) -> Actor | None:
    # An unsaved user was created for this request, and has no id.
    return actor_of(user) if getattr(user, "is_authenticated", False) and user.pk is not None else None
