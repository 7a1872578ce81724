"""The target of a replay (a handler, a destination or one endpoint), and event types as people write them, with
suggestions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from duebox.contracts import declared
from duebox.contracts.enforce import OWN
from duebox.events.address import Address
from duebox.events.fact import FactRow
from duebox.events.identities import is_uuid
from duebox.events.subscribers import Subscriber, by_name, subscribers
from duebox.events.wildcards import fits, fits_any
from duebox.exceptions import InvalidReplay, did_you_mean
from duebox.models import Attempt, WebhookEndpoint

PUBLIC = "public."
OWN_TYPES = frozenset(
    {
        "duebox.audit.sealed",
        "duebox.delivery.dead",
        "duebox.endpoint.disabled",
        "duebox.endpoint.failing",
        "duebox.plans.reconcile",
        "duebox.sweep.due",
        "duebox.task",
    }
)
"""The types of events that Duebox itself emits."""
_SHOWN = 8


def public(pattern: str) -> str:
    """As it is stored for webhooks; people leave the prefix out."""
    return pattern if pattern.startswith(PUBLIC) else f"{PUBLIC}{pattern}"


def is_known(pattern: str, also: Collection[str] = ()) -> bool:
    """Whether a type is like that which is declared, which a handler names, which Duebox emits, or which is stored."""
    return any(fits(name, pattern) for name in {*_named(), *OWN_TYPES, *also})


def unlike(pattern: str, other: str, stored: Collection[str] = ()) -> str:
    """That no type is like that, and which one may be meant; nothing where one is, or where none is known at all."""
    names = sorted({*_named(), *stored})
    if not names or is_known(pattern, stored):
        return ""
    hint = did_you_mean(pattern, [*names, *OWN_TYPES]) or f"there are: {_some(names)}."
    return f"No event type is like {pattern!r}, neither a declared one nor that of {other}; {hint}"


def _some(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return f"{', '.join(names[:_SHOWN])}{f' and {rest} more' if rest > 0 else ''}"


def _named() -> set[str]:
    handled = {each.pattern for each in subscribers() if "*" not in each.pattern and not each.pattern.startswith(OWN)}
    return {each.name for each in declared()} | handled


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
    """Find a target by the name of a subscriber or the alias of a destination. Raises InvalidReplay."""
    known = by_name()
    address = Address.parse(name) if name in known else Address.of_destination(name)
    whole = str(address.whole)
    if whole not in known:
        raise InvalidReplay(f"No handler or destination is called {name!r}; {_near(name)}")
    fan_out = known.get(str(Address.of_fan_out(address.alias))) if address.kind == "destination" else None
    if address.key:
        return _part(using, address, known[whole], fan_out)
    if fan_out is not None:
        raise InvalidReplay(
            f"{name!r} is many places; name one of them, as in '{whole}/<id>', or {fan_out.name!r} for all that want "
            "an event."
        )
    return _whole(known[whole])


def _whole(each: Subscriber) -> Target:
    def only_public(type: str) -> bool:
        return Address.parse(each.name).kind == "fan-out" and not each.receives(type) and each.receives(public(type))

    return Target(
        name=each.name, names=(each.name, *each.aliases), takes=_taken_by(each), ordered=each.ordered,
        picky=each.picky, only_public=only_public,
    )  # fmt: skip


def _part(using: str, address: Address, whole: Subscriber, fan_out: Subscriber | None) -> Target:
    stored, key = str(address), address.key
    row = WebhookEndpoint.objects.using(using).filter(pk=key).first() if is_uuid(key) else None
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
        return may(event) and routed(event) and fits_any(kind, patterns)

    return Target(
        name=stored, names=(stored,), takes=takes, may=may, ordered=whole.ordered, picky=fan_out.picky,
        fan_out=fan_out.name, organization=organization, only_public=lambda type: not type.startswith(PUBLIC),
    )  # fmt: skip


def told_disabled(name: str) -> str:
    """Of an endpoint, with the way out."""
    return f"{name!r} is disabled; enable it first: manage.py duebox endpoints enable {Address.parse(name).key}"


def _taken_by(each: Subscriber) -> Callable[[FactRow], bool]:
    return lambda row: each.receives(row.type) and (not each.picky or each.accepts(row))


def _near(name: str) -> str:
    names = [each for each in by_name() if not by_name()[each].name.startswith("duebox.")]
    short = [str(each if each.kind == "fan-out" else each.plain) for each in map(Address.parse, names)]
    near = did_you_mean(Address.of_destination(name).alias, short)
    return near or f"there are: {', '.join(sorted(short)) or 'none'}."
