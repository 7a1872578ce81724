"""Whom a replay goes to: a handler, a destination, or one endpoint of an organization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from uuid import UUID

from duebox.exceptions import InvalidReplay
from duebox.fact import FactRow
from duebox.models import Attempt, WebhookEndpoint
from duebox.store.event_types import PUBLIC, public
from duebox.subscribers import OUTSIDE, Subscriber, by_name

FAN_OUT = "fan-out:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    name: str
    """As deliveries to it are stored."""
    names: tuple[str, ...]
    """Its older names too: what was delivered under one of them is not missing."""
    takes: Callable[[FactRow], bool]
    """Whether an event of today would go there."""
    may: Callable[[FactRow], bool] = lambda row: True
    """Whether an event may go there at all, whatever is asked for."""
    ordered: bool = False
    picky: bool = False
    fan_out: str = ""
    """Where deliveries stand that may still become some to this one."""
    organization: str | None = None
    only_public: Callable[[str], bool] = lambda type: False
    """Whether it takes of this type, or of this pattern of types, the public twins and nothing else."""

    def spelled(self, type: str | None) -> str | None:
        """A type as events for it have it."""
        return public(type) if type is not None and self.only_public(type) else type


def target_of(using: str, name: str) -> Target:
    """By the name of a subscriber, or by the alias of a destination; InvalidReplay where nobody has it."""
    known = by_name()
    stored = name if name in known or name.startswith(OUTSIDE) else f"{OUTSIDE}{name}"
    whole, _, key = stored.partition("/")
    if whole not in known:
        raise InvalidReplay(f"Nobody is known as {name!r}; {_near(name)}")
    alias = whole.removeprefix(OUTSIDE)
    fan_out = known.get(f"{FAN_OUT}{alias}") if whole.startswith(OUTSIDE) else None
    if key:
        return _part(using, stored, key, known[whole], fan_out)
    if fan_out is not None:
        raise InvalidReplay(
            f"{name!r} is many places; name one of them, as in '{whole}/<id>', or {fan_out.name!r} for all that want "
            "an event."
        )
    return _whole(known[stored])


def _whole(each: Subscriber) -> Target:
    def only_public(type: str) -> bool:
        return each.name.startswith(FAN_OUT) and not each.receives(type) and each.receives(public(type))

    return Target(
        name=each.name, names=(each.name, *each.aliases), takes=_taken_by(each), ordered=each.ordered,
        picky=each.picky, only_public=only_public,
    )  # fmt: skip


def _part(using: str, stored: str, key: str, whole: Subscriber, fan_out: Subscriber | None) -> Target:
    row = WebhookEndpoint.objects.using(using).filter(pk=key).first() if _is_uuid(key) else None
    if row is not None and fan_out is not None:
        return _endpoint(stored, row, whole, fan_out)
    if not Attempt.objects.using(using).filter(subscriber=stored, subscriber__contains="/").exists():
        raise InvalidReplay(f"Nothing is known of {stored!r}; `manage.py duebox endpoints list` lists the endpoints.")
    # A part that no row describes: it may get again what it got before, and nothing else.
    return Target(name=stored, names=(stored,), takes=lambda row: False, ordered=whole.ordered)


def _endpoint(stored: str, row: WebhookEndpoint, whole: Subscriber, fan_out: Subscriber) -> Target:
    if row.disabled_at is not None:
        raise InvalidReplay(told_disabled(stored))
    routed, patterns, organization = _taken_by(fan_out), [str(each) for each in row.types], row.organization

    def may(event: FactRow) -> bool:
        return event.type.startswith(PUBLIC) and bool(organization) and event.organization == organization

    def takes(event: FactRow) -> bool:
        kind = event.type.removeprefix(PUBLIC)
        return may(event) and routed(event) and any(_fits(pattern, kind) for pattern in patterns)

    return Target(
        name=stored, names=(stored,), takes=takes, may=may, ordered=whole.ordered, picky=fan_out.picky,
        fan_out=fan_out.name, organization=organization, only_public=lambda type: not type.startswith(PUBLIC),
    )  # fmt: skip


def told_disabled(name: str) -> str:
    """Of an endpoint, with the way out."""
    return f"{name!r} is disabled; enable it first: manage.py duebox endpoints enable {name.partition('/')[2]}"


def _taken_by(each: Subscriber) -> Callable[[FactRow], bool]:
    return lambda row: each.receives(row.type) and (not each.picky or each.accepts(row))


def _fits(pattern: str, kind: str) -> bool:
    """As the fan-out compares them: a star stands for anything, at the beginning or at the end."""
    head, star, tail = pattern.partition("*")
    if not star:
        return kind == head
    return len(kind) >= len(head) + len(tail) and kind.startswith(head) and kind.endswith(tail)


def _near(name: str) -> str:
    names = [each for each in by_name() if not by_name()[each].name.startswith("duebox.")]
    short = {each.removeprefix(OUTSIDE): each for each in names}
    found = get_close_matches(name.removeprefix(OUTSIDE).partition("/")[0], short, n=1)
    return f"did you mean {found[0]!r}?" if found else f"there are: {', '.join(sorted(short)) or 'none'}."


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
