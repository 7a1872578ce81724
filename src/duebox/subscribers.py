"""Who reacts to what: `@duebox.on` and the register behind it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from duebox.exceptions import InvalidSubscriber
from duebox.fact import Fact, FactRow
from duebox.outcome import Retry

Handler = Callable[[Fact], Any]
H = TypeVar("H", bound=Handler)

_NAME = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")
_WORDS = r"[a-z0-9_]+(\.[a-z0-9_]+)*"
_PATTERN = re.compile(rf"\*|\*\.{_WORDS}|{_WORDS}\.\*|{_WORDS}")


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
    aliases: tuple[str, ...] = ()
    is_async: bool = False
    picky: bool = False
    """The type alone does not decide: `accepts` must be asked about the event."""

    def receives(self, event_type: str) -> bool:
        prefix, star, suffix = self.pattern.partition("*")
        if not star:
            return event_type == prefix
        return event_type.startswith(prefix) and event_type.endswith(suffix)

    def accepts(self, row: FactRow) -> bool:
        return True


OUTSIDE = "to:"
"""The names of destinations begin with it: their deliveries are claimed apart from those of handlers."""

_by_name: dict[str, Subscriber] = {}
_refusal: list[str] = []


def on(
    pattern: str,
    *,
    name: str | None = None,
    aliases: Iterable[str] = (),
    atomic: bool = True,
    alone: bool = False,
    ordered: bool = False,
    on_dead: str = "block",
    retry: Retry | None = None,
) -> Callable[[H], H]:
    """React to events: exact (`member.invited`), by prefix (`member.*`), by suffix (`*.invited`), or all (`*`).

    The name (by default module and function) is stored with every delivery: give one explicitly, or list the old
    one in `aliases` when you rename. With `atomic` the handler's writes and its settlement commit together; use
    `atomic=False` when it talks to the outside. Quick atomic handlers share a transaction;
    `alone` keeps one apart, which those need that use SET LOCAL or the like. `ordered` serves the events of one
    aggregate one after the other; a dead letter then blocks the ones behind it, or is passed over with
    `on_dead="skip"`.
    """

    def register(handler: H) -> H:
        if (name or "").startswith(OUTSIDE):
            raise InvalidSubscriber(f"Subscriber name {name!r} begins as destinations do; pass another name=.")
        add(
            Subscriber(
                name=name or _default_name(handler),
                pattern=pattern,
                handler=handler,
                atomic=atomic,
                alone=alone,
                ordered=ordered,
                on_dead=on_dead,
                retry=retry or Retry(),
                aliases=tuple(aliases),
                is_async=any(map(inspect.iscoroutinefunction, (handler, getattr(handler, "__call__", None)))),  # noqa: B004
            )
        )
        return handler

    return register


def _default_name(handler: Handler) -> str:
    if not hasattr(handler, "__qualname__"):
        raise InvalidSubscriber(f"{handler!r} has no name of its own; give it one with @duebox.on(..., name=...).")
    return f"{handler.__module__}.{handler.__qualname__}".replace("<locals>.", "")


def subscribers() -> tuple[Subscriber, ...]:
    return tuple(dict.fromkeys(_by_name.values()))


def by_name() -> dict[str, Subscriber]:
    """Every name a stored delivery may carry, aliases included."""
    return _by_name


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
        inspect.signature(new.handler).bind(object())
    except TypeError as error:
        raise InvalidSubscriber(
            f"Handler {_where(new.handler)} cannot be called with one event ({error}); "
            f"write it as def {getattr(new.handler, '__name__', 'handle')}(event)."
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
