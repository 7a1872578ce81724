"""Which handler receives which events: `@duebox.on` and the register behind it."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, overload

from django.core.exceptions import ImproperlyConfigured

from duebox.contracts.types import EventType, type_of
from duebox.exceptions import InvalidSubscriber
from duebox.fact import Fact, FactRow
from duebox.outcome import Retry

Handler = Callable[..., Any]
H = TypeVar("H", bound=Callable[[Fact], Any])
T = TypeVar("T")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")
_WORDS = r"[a-z0-9_]+(\.[a-z0-9_]+)*"
_PATTERN = re.compile(rf"\*|\*\.{_WORDS}|{_WORDS}\.\*|{_WORDS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much of a handler may run: `concurrency` at the same time in each worker, `rate` a second in all workers
    together, of which `burst` may run at once after a pause (a tenth of a second's worth by default)."""

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
        """How many tokens the bucket holds."""
        return float(self.burst or max(1.0, (self.rate or 0.0) / 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One handler and how it wants to be served."""

    name: str
    pattern: str
    handler: Handler
    together: Callable[[Sequence[Fact], str], None] | None = None
    """The same for many events at once, on this database; what the database says against one of them it says against
    all, and then the handler is called for each."""
    atomic: bool = True
    alone: bool = False
    ordered: bool = False
    on_dead: str = "block"
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    """Seconds, after which an attempt has failed."""
    limit: Limit | None = None
    aliases: tuple[str, ...] = ()
    is_async: bool = False
    kind: EventType | None = field(default=None, compare=False)
    """The type whose class it subscribed with: it gets events in the version of that class."""
    data_class: type | None = None
    """The class of the handler's second argument, if it takes one."""
    as_stored: bool = False
    """It gets an event as it was stored, and not in the newest version of its type."""
    picky: bool = False
    """The type alone does not decide: `accepts` must be asked about the event."""

    def receives(self, event_type: str) -> bool:
        prefix, star, suffix = self.pattern.partition("*")
        if not star:
            return event_type == prefix
        if event_type.startswith(PERIODIC):
            return False
        return event_type.startswith(prefix) and event_type.endswith(suffix)

    def accepts(self, row: FactRow) -> bool:
        return True

    def asks_for(self, event_type: str) -> list[str]:
        """The patterns by which it gets events of a type, as they were written."""
        return [self.pattern]


OUTSIDE = "to:"
"""The names of destinations begin with it: their deliveries are claimed apart from those of handlers."""

PERIODIC = "periodic."
"""The types of the events of periodic functions begin with it. They go to whoever names the type, not to patterns."""

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
    """What `@on(OrderPaid)` puts above a handler, which may take the event alone, or the event and its data."""

    @overload
    def __call__(self, handler: Callable[[Fact, T], R], /) -> Callable[[Fact, T], R]: ...
    @overload
    def __call__(self, handler: Callable[[Fact], R], /) -> Callable[[Fact], R]: ...


@overload
def on(pattern: str, **options: Unpack[Options]) -> Callable[[H], H]: ...
@overload
def on(pattern: type[T], **options: Unpack[Options]) -> OfClass[T]: ...
def on(
    pattern: str | type,
    *others: object,
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
    """React to events: exact (`member.invited`), by prefix (`member.*`), by suffix (`*.invited`), or all (`*`).

    With an event class, as in `@duebox.on(OrderPaid)`, the handler receives the events of the type that the class
    declares, and may take an instance of the class as a second argument: `def handle(event, paid)`.

    The name (by default module and function) is stored with every delivery: give one explicitly, or list the old
    one in `aliases` when you rename. With `atomic` the handler's writes and its settlement commit together; use
    `atomic=False` when it talks to the outside. Quick atomic handlers share a transaction;
    `alone` keeps one apart, which those need that use SET LOCAL or the like. `ordered` serves the events of one
    aggregate one after the other; a dead letter then blocks the ones behind it, or is passed over with
    `on_dead="skip"`. `retry` is a `Retry`, or the number of retries. An attempt that takes
    longer than `timeout`, in seconds or as a timedelta, has failed: an atomic handler is cut off and rolled back, an
    async one cancelled, and the thread of any other is left to itself. `limit` is a `Limit`: how much of it may run.
    """
    kind = _kind_of(pattern, others)
    policy, seconds = _retry_policy(retry), _timeout(timeout)
    if limit is not None and not isinstance(limit, Limit):
        raise InvalidSubscriber(
            f"limit={limit!r} is no limit; pass duebox.Limit(concurrency=4), duebox.Limit(rate=10), or both in one."
        )

    def register(handler: Handler) -> Handler:
        if (name or "").startswith(OUTSIDE):
            raise InvalidSubscriber(f"Subscriber name {name!r} begins as destinations do; pass another name=.")
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
    """The type that an event class declares; None for a pattern. What is neither is refused, with what to write."""
    if others:
        raise InvalidSubscriber(
            f"@duebox.on got {len(others) + 1} events; give it one pattern or one event class. To use a handler for "
            "several, put one @duebox.on(..., name=...) above it for each, with different names."
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
        f"timeout={given!r} is no time; pass seconds above 0, as in timeout=30, or a timedelta, or None for no limit."
    )


def _wants_data(handler: Handler) -> bool:
    """Whether there is a second parameter to fill; one with a default is the handler's own."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [each for each in inspect.signature(handler).parameters.values() if each.kind in positional]
    return len(parameters) > 1 and parameters[1].default is inspect.Parameter.empty


def default_name(handler: Callable[..., Any]) -> str:
    """Module and function."""
    if not hasattr(handler, "__qualname__"):
        raise InvalidSubscriber(f"{handler!r} has no name of its own; give it one with @duebox.on(..., name=...).")
    return f"{handler.__module__}.{handler.__qualname__}".replace("<locals>.", "")


def subscribers() -> tuple[Subscriber, ...]:
    return tuple(dict.fromkeys(_by_name.values()))


def by_name() -> dict[str, Subscriber]:
    """Every name a stored delivery may carry, aliases included."""
    return _by_name


def is_known(name: str) -> bool:
    """Whether a stored delivery of this name has somebody to go to: a handler, or a destination with its parts."""
    return name in _by_name or (name.startswith(OUTSIDE) and name.partition("/")[0] in _by_name)


def receivers_for(row: FactRow) -> list[Subscriber]:
    """Who gets this event."""
    return [each for each in receivers_of(row.type) if not each.picky or each.accepts(row)]


@lru_cache(maxsize=4096)
def receivers_of(event_type: str) -> tuple[Subscriber, ...]:
    """Who may get events of a type. Where that cannot be known, emitting ends here: nobody would miss a delivery."""
    if _refusal:
        raise ImproperlyConfigured(f"{_refusal[0]} Nothing is emitted until that is repaired; run: manage.py check")
    return tuple(subscriber for subscriber in subscribers() if subscriber.receives(event_type))


def refuse_all(reason: str | None) -> None:
    """Say why it is not known who receives what, or that it is known again."""
    _refusal[:] = [reason] if reason else []
    receivers_of.cache_clear()


def remove(name: str) -> None:
    """Forget a subscriber; for tests and interactive work."""
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
    if not _PATTERN.fullmatch(new.pattern):
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
    """A module that is imported again registers the same lines again, compiled anew; that is no collision.
    One function under two patterns is, and so are functions that a loop makes from one piece of code."""
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
    return {name: each for name, each in names.items() if any(fnmatchcase(each.name, wanted) for wanted in only)}
