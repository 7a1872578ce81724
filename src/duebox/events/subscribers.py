"""`@duebox.on` and the registry of subscribers: which handler receives which events."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, overload

from django.core.exceptions import ImproperlyConfigured

from duebox.contracts.event_types import EventType, type_of
from duebox.events.address import Address
from duebox.events.fact import Fact, FactRow
from duebox.events.outcomes import Retry
from duebox.events.wildcards import fits, fits_any, is_pattern_of_types
from duebox.exceptions import InvalidSubscriber

Handler = Callable[..., Any]
H = TypeVar("H", bound=Callable[[Fact], Any])
T = TypeVar("T")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Limits of a handler: `concurrency` runs at the same time in each worker; `rate` runs per second in all workers
    together, with `burst` at once after a pause (by default the runs of a tenth of a second)."""

    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("concurrency", self.concurrency), ("burst", self.burst)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidSubscriber(f"Limit({name}={value!r}) must be a whole number from 1 on.")
        rate = self.rate
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if rate is not None and not (is_number and 0 < rate < math.inf):
            raise InvalidSubscriber(f"Limit(rate={rate!r}) must be a number above 0: how many a second.")
        if self.concurrency is None and rate is None:
            raise InvalidSubscriber("Limit() limits nothing; pass concurrency=, or rate=, or both.")
        if self.burst is not None and rate is None:
            raise InvalidSubscriber(f"Limit(burst={self.burst!r}) needs a rate; pass rate= as well.")

    @property
    def bucket(self) -> float:
        """The size of the token bucket."""
        return float(self.burst or max(1.0, (self.rate or 0.0) / 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One handler with its options."""

    name: str
    pattern: str
    handler: Handler
    together: Callable[[Sequence[Fact], str], None] | None = None
    """Handles many events at once on this database. If the database refuses one of them, all fail, and the handler is
    then called for each."""
    atomic: bool = True
    alone: bool = False
    ordered: bool = False
    on_dead: str = "block"
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    """In seconds; an attempt that takes longer has failed."""
    limit: Limit | None = None
    aliases: tuple[str, ...] = ()
    is_async: bool = False
    kind: EventType | None = field(default=None, compare=False)
    """The event type whose class it subscribed with: it receives events in the version of that class."""
    data_class: type | None = None
    """The class of the handler's second argument, if it takes one."""
    as_stored: bool = False
    """It receives events as they were stored, and not upcast to the newest version."""
    picky: bool = False
    """It selects by more than the type: `accepts` must be called with each event."""

    def receives(self, event_type: str) -> bool:
        if "*" not in self.pattern or self.kind is not None:
            return event_type == self.pattern
        return not event_type.startswith(PERIODIC) and fits(event_type, self.pattern)

    def accepts(self, row: FactRow) -> bool:
        return True

    def asks_for(self, event_type: str) -> list[str]:
        """Its patterns that match a type, as they were written."""
        return [self.pattern]


PERIODIC = "periodic."
"""The prefix of the event types of periodic functions. Only a subscriber to the exact type receives them, patterns do
not match."""

_by_name: dict[str, Subscriber] = {}
_refusal: list[str] = []


class Options(TypedDict, total=False):
    """The options of `on`, for type checkers."""

    name: str | None
    aliases: Iterable[str]
    atomic: bool
    alone: bool
    ordered: bool
    on_dead: str
    retry: Retry | int | None
    timeout: float | timedelta | None
    limit: Limit | None


class OfClass(Protocol[T]):
    """The decorator that `on(OrderPaid)` returns, for handlers of the event alone or of the event and its data."""

    @overload
    def __call__(self, handler: Callable[[Fact, T], R], /) -> Callable[[Fact, T], R]: ...
    @overload
    def __call__(self, handler: Callable[[Fact], R], /) -> Callable[[Fact], R]: ...


@overload
def on(pattern: str, **options: Unpack[Options]) -> Callable[[H], H]: ...
@overload
def on(pattern: type[T], **options: Unpack[Options]) -> OfClass[T]: ...
def on(
    pattern: str | type = "",
    *_others: object,
    name: str | None = None,
    aliases: Iterable[str] = (),
    atomic: bool = True,
    alone: bool = False,
    ordered: bool = False,
    on_dead: str = "block",
    retry: Retry | int | None = None,
    timeout: float | timedelta | None = None,
    limit: Limit | None = None,
) -> Any:
    """Register a handler for events: of one type (`member.invited`), by prefix (`member.*`), by suffix (`*.invited`),
    or all (`*`).

    With an event class, as in `@duebox.on(OrderPaid)`, the handler receives the events of the type that the class
    declares, and may take an instance of the class as a second argument: `def handle(event, paid)`.

    The name (by default module and function) is stored with every delivery: give one explicitly, or list the old one in
    `aliases` when you rename. With `atomic` the handler's writes and its settlement commit together; use `atomic=False`
    when it calls other services. Quick atomic handlers share a transaction; pass `alone` for a handler that uses SET
    LOCAL or the like. `ordered` handles the events of one aggregate one after the other; a dead letter then blocks the
    events behind it, or is skipped with `on_dead="skip"`. `retry` is a `Retry`, or the number of retries. An attempt
    that takes longer than `timeout`, in seconds or as a timedelta, has failed: an atomic handler is interrupted and
    rolled back, an async one is cancelled, and the thread of any other runs on. `limit` is a `Limit` of its concurrency
    and rate.
    """
    kind = _kind_of(pattern, _others)
    policy, seconds = _retry_policy(retry), _timeout(timeout)
    if limit is not None and not isinstance(limit, Limit):
        raise InvalidSubscriber(
            f"limit={limit!r} is not a limit; pass duebox.Limit(concurrency=4), duebox.Limit(rate=10), or both in one."
        )

    def register(handler: Handler) -> Handler:
        if name and Address.parse(name).kind != "handler":
            raise InvalidSubscriber(
                f"Subscriber name {name!r} begins with the prefix of destinations; pass another name=."
            )
        add(
            Subscriber(
                name=name or default_name(handler),
                pattern=kind.name if kind else str(pattern),
                handler=handler,
                atomic=atomic,
                alone=alone,
                ordered=ordered,
                on_dead=on_dead,
                retry=policy,
                timeout=seconds,
                limit=limit,
                aliases=tuple(aliases),
                is_async=any(map(inspect.iscoroutinefunction, (handler, getattr(handler, "__call__", None)))),  # noqa: B004
                kind=kind,
                data_class=kind.shape if kind and _wants_data(handler) else None,
            )
        )
        return handler

    return register


def _kind_of(pattern: object, others: tuple[object, ...]) -> EventType | None:
    """The event type that a class declares; None for a pattern. Anything else raises an error with the repair."""
    if others:
        raise InvalidSubscriber(
            f"@duebox.on got {len(others) + 1} events; give it one pattern or one event class. To use a handler for "
            "several, put one @duebox.on(..., name=...) above it for each, with different names."
        )
    if isinstance(pattern, str) and not pattern:
        raise InvalidSubscriber(
            "@duebox.on() does not say which events; write @duebox.on('order.paid') with a pattern, or "
            "@duebox.on(OrderPaid) with an event class."
        )
    if isinstance(pattern, str):
        return None
    if isinstance(pattern, type):
        if kind := type_of(pattern):
            return kind
        raise InvalidSubscriber(
            f"{pattern.__module__}.{pattern.__qualname__} declares no event; write @duebox.event('order.paid') or the "
            "like above that class, or give @duebox.on a pattern such as 'order.paid'."
        )
    if callable(pattern):
        raise InvalidSubscriber(
            f"@duebox.on above {_where(pattern)} does not say which events; write @duebox.on('order.paid') with a "
            "pattern, or @duebox.on(OrderPaid) with an event class."
        )
    raise InvalidSubscriber(f"@duebox.on got {pattern!r}; give it a pattern such as 'order.paid', or an event class.")


def _retry_policy(given: object) -> Retry:
    if isinstance(given, Retry):
        return given
    if given is None:
        return Retry()
    if isinstance(given, int) and not isinstance(given, bool):
        try:
            return Retry(limit=given)
        except ValueError:
            raise InvalidSubscriber(f"retry={given!r} is not a number of retries; pass 0 to 10,000.") from None
    raise InvalidSubscriber(
        f"retry={given!r} is not a retry policy; pass the number of retries, as in retry=3, or a duebox.Retry(...)."
    )


def _timeout(given: object) -> float | None:
    if given is None:
        return None
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf:
        return float(seconds)
    raise InvalidSubscriber(
        f"timeout={given!r} is not a duration; pass seconds above 0, as in timeout=30, or a timedelta, or None for no "
        f"limit."
    )


def _wants_data(handler: Handler) -> bool:
    """Whether the handler takes the data as a second argument; a parameter with a default does not count."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [each for each in inspect.signature(handler).parameters.values() if each.kind in positional]
    return len(parameters) > 1 and parameters[1].default is inspect.Parameter.empty


def default_name(handler: Callable[..., Any]) -> str:
    """The default name of a handler: module and function."""
    if not hasattr(handler, "__qualname__"):
        raise InvalidSubscriber(f"{handler!r} has no name of its own; give it one with @duebox.on(..., name=...).")
    return f"{handler.__module__}.{handler.__qualname__}".replace("<locals>.", "")


def subscribers() -> tuple[Subscriber, ...]:
    return tuple(dict.fromkeys(_by_name.values()))


def by_name() -> dict[str, Subscriber]:
    """All names of subscribers, including aliases, that stored deliveries may have."""
    return _by_name


def is_known(name: str) -> bool:
    """Whether this name is known: that of a handler, or of a destination or one of its endpoints."""
    return name in _by_name or str(Address.parse(name).whole) in _by_name


def receivers_for(row: FactRow) -> list[Subscriber]:
    """The subscribers that receive this event."""
    return [each for each in receivers_of(row.type) if not each.picky or each.accepts(row)]


@lru_cache(maxsize=4096)
def receivers_of(event_type: str) -> tuple[Subscriber, ...]:
    """The subscribers that may receive events of a type. Raises an error if the routes are invalid: the event would be
    stored without some of its deliveries."""
    if _refusal:
        raise ImproperlyConfigured(f"{_refusal[0]} Nothing is emitted until that is repaired; run: manage.py check")
    return tuple(subscriber for subscriber in subscribers() if subscriber.receives(event_type))


def refuse_all(reason: str | None) -> None:
    """Set the reason why receivers are not known and nothing can be emitted, or remove it."""
    _refusal[:] = [reason] if reason else []
    receivers_of.cache_clear()


def remove(name: str) -> None:
    """Remove a subscriber; for tests and interactive work."""
    gone = _by_name[name]
    for known in (gone.name, *gone.aliases):
        del _by_name[known]
    receivers_of.cache_clear()


def add(new: Subscriber) -> None:
    _refuse_mistakes(new)
    for known in (new.name, *new.aliases):
        old = _by_name.get(known)
        if old is not None and not _same_again(old, new):
            raise InvalidSubscriber(
                f"Subscriber name {known!r} is taken by {_where(old.handler)}; "
                f"give {_where(new.handler)} another one with @duebox.on(..., name=...)."
            )
    for known in (new.name, *new.aliases):
        _by_name[known] = new
    receivers_of.cache_clear()


def _refuse_mistakes(new: Subscriber) -> None:
    # The name of an event class is not a pattern; a system check reports it if it is misspelt.
    if new.kind is None and not is_pattern_of_types(new.pattern):
        raise InvalidSubscriber(f"Pattern {new.pattern!r} of {new.name!r} must look like 'a.b', 'a.*', '*.b' or '*'.")
    for known in (new.name, *new.aliases):
        if not _NAME.fullmatch(known):
            raise InvalidSubscriber(
                f"Subscriber name {known!r} may hold up to 200 letters, digits and _.:- only; "
                "pass a plain one with @duebox.on(..., name=...)."
            )
    if new.on_dead not in ("block", "skip"):
        raise InvalidSubscriber(f"on_dead of {new.name!r} is {new.on_dead!r}; it must be 'block' or 'skip'.")
    _refuse_signature(new)


def _refuse_signature(new: Subscriber) -> None:
    try:
        inspect.signature(new.handler).bind(*[object()] * (2 if new.data_class else 1))
    except TypeError as error:
        name = getattr(new.handler, "__name__", "handle")
        given, form = "one event", f"def {name}(event)"
        if new.kind is not None:
            given, form = "an event and its data", f"def {name}(event) or def {name}(event, data)"
        hint = "" if new.kind else ", or subscribe with an event class to get its data as a second argument"
        raise InvalidSubscriber(
            f"Handler {_where(new.handler)} cannot be called with {given} ({error}); write it as {form}{hint}."
        ) from None


def _same_again(old: Subscriber, new: Subscriber) -> bool:
    """Whether a module was reloaded and registers the same handler again, which is not a collision. One function under
    two patterns is a collision, and so are functions that a loop creates from the same code."""
    if old.handler is new.handler:
        return old.pattern == new.pattern
    codes = [getattr(each.handler, "__code__", None) for each in (old, new)]
    return _where(old.handler) == _where(new.handler) and (codes[0] is None or codes[0] is not codes[1])


def _where(handler: Handler) -> str:
    code = getattr(handler, "__code__", None)
    line = f" (line {code.co_firstlineno})" if code else ""
    return f"{handler.__module__}.{getattr(handler, '__qualname__', type(handler).__qualname__)}{line}"


def matching(only: tuple[str, ...] = ()) -> dict[str, Subscriber]:
    """All of them, or those whose names match one of the shell patterns."""
    names = by_name()
    if not only:
        return dict(names)
    return {name: each for name, each in names.items() if fits_any(each.name, only)}
