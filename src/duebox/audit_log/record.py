"""Record: entries are written on the caller's own connection, in the caller's own transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import models

from duebox.audit_log.context import Context, current_context
from duebox.audit_log.policy import Pair, Policy, Values, difference, policies_named, policy_of
from duebox.conf import Settings
from duebox.context.current import handling
from duebox.events.emit import ready_settings
from duebox.events.fact import Actor
from duebox.events.identities import LIMIT, actor_of, aggregate_of, audit_identity
from duebox.events.payload import encode
from duebox.exceptions import InvalidAudit
from duebox.store import audit as audits
from duebox.store.audit import Entry

if TYPE_CHECKING:
    from duebox.models import AuditEntry

Entity = models.Model | tuple[str, object]

OWN = ("audit.", "duebox.")
"""How actions that Duebox records itself begin."""
WORKER = Actor("system", "duebox.worker")
"""Who acts where no person is known."""
_ACTION = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")


def audit(
    action: str,
    entity: Entity,
    *,
    before: Values | None = None,
    after: Values | None = None,
    changes: Mapping[str, Pair] | None = None,
    actor: object = None,
    impersonator: object = None,
    organization: object = None,
    reason: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> AuditEntry:
    """Record that something was done to something: committed with your transaction, or not at all.

    Who did it and where it came from are taken from the request or the event that is being handled, unless given.
    Of `before` and `after` only what differs is kept, and of a followed model only what its policy shows. One round
    trip, without waiting for locks. A worker seals the entry after the commit.
    """
    settings = ready_settings()
    if isinstance(action, str) and action.startswith(OWN):
        raise InvalidAudit(f"action={action!r} begins as the entries of Duebox itself do; give it another name.")
    about = _about(entity)
    context = _with_given(current_context(), actor, impersonator)
    entry = _entry(
        action,
        about,
        context,
        organization=audit_identity(organization, "organization"),
        changes=_changes(about[0], _policies(entity), settings, before=before, after=after, changes=changes),
        metadata=_metadata(metadata, reason, context, settings),
    )
    current = handling.get()
    [stored] = write([entry], using or (current.using if current else settings.DATABASE))
    return stored


def own_entry(
    action: str,
    entity: tuple[str, str],
    metadata: Mapping[str, object],
    actor: object = None,
    organization: str = "",
) -> Entry:
    """What Duebox records about the log itself and about its own rows: by `actor`, by the actor of the context, or by
    the worker."""
    context, who = current_context(), actor_of(actor) if actor is not None else None
    if who or context.actor is None:
        context = context._replace(actor=(who or WORKER).to_json())
    return _entry(action, entity, context, organization=organization, changes="{}", metadata=json.dumps(metadata))


class Acted(NamedTuple):
    """A row of Duebox that a person has changed."""

    id: object
    organization: str = ""
    metadata: Mapping[str, object] = {}


def record(action: str, kind: str, rows: Iterable[Acted], using: str, reason: str = "") -> None:
    """An entry for each row, in the transaction of the action, with the same names whether it was done in the admin or
    on the dashboard."""
    why = {"reason": reason} if reason else {}
    entries = [
        own_entry(action, (kind, str(row.id)), {**row.metadata, **why}, organization=row.organization) for row in rows
    ]
    write(entries, using)


def write(entries: Sequence[Entry], using: str) -> list[AuditEntry]:
    """Store entries in the order given."""
    from duebox.models import AuditEntry  # here: `import duebox` comes before Django knows its apps

    if not entries:
        return []
    rows = audits.write(using, entries)
    for row in rows:
        for name in ("changes", "metadata", "actor", "impersonator"):
            row[name] = json.loads(row[name]) if row[name] is not None else None
    return [AuditEntry(**row) for row in rows]


def _entry(
    action: str, entity: tuple[str, str], context: Context, *, organization: str, changes: str, metadata: str
) -> Entry:
    if not isinstance(action, str) or not _ACTION.fullmatch(action) or len(action) > LIMIT:
        raise InvalidAudit(f"action={action!r} is not a name; use lower snake case like 'member.removed'.")
    return Entry(
        organization=organization or context.organization,
        action=action,
        entity_type=entity[0],
        entity_id=entity[1],
        actor=context.actor,
        impersonator=context.impersonator,
        correlation_id=context.correlation_id,
        ip=context.ip,
        user_agent=context.user_agent,
        changes=changes,
        metadata=metadata,
    )


def _about(entity: Entity) -> tuple[str, str]:
    """What an entry is about, as (type, id)."""
    if entity is None:
        raise InvalidAudit("entity is None; pass a saved model instance, or a pair like ('shop.order', 42).")
    return aggregate_of(entity, "entity", InvalidAudit)


def _policies(entity: Entity) -> list[Policy]:
    if not isinstance(entity, models.Model):
        return policies_named(entity[0])
    policy = policy_of(type(entity))
    return [policy] if policy else []


def _with_given(context: Context, actor: object, impersonator: object) -> Context:
    for name, value in (("actor", actor), ("impersonator", impersonator)):
        if value is not None and (who := actor_of(value, name, InvalidAudit)):
            context = context._replace(**{name: who.to_json()})
    return context


def _changes(
    kind: str,
    policies: Sequence[Policy],
    settings: Settings,
    *,
    before: Values | None,
    after: Values | None,
    changes: Mapping[str, Pair] | None,
) -> str:
    """The changes that a caller gives as JSON; what JSON cannot carry is refused, since the caller can repair it."""
    if changes is not None and (before is not None or after is not None):
        raise InvalidAudit("changes= says it all; leave out before= and after=, or give only those two.")
    shown: Mapping[str, Any] = _pairs(changes) if changes is not None else difference(_named(before), _named(after))
    for policy in policies:
        shown = policy.seen(kind, shown)
    return encode(shown, root="changes", limit=settings.PAYLOAD_LIMIT_BYTES, depth=settings.PAYLOAD_DEPTH)


def _named(values: Values | None) -> Values | None:
    if values is None or isinstance(values, Mapping):
        return values
    raise InvalidAudit(f"before= and after= must be dicts of values by name, not a {type(values).__name__}.")


def _pairs(changes: Mapping[str, Pair]) -> dict[str, Pair]:
    if not isinstance(changes, Mapping):
        raise InvalidAudit(
            f"changes= must be a dict like {{'role': ('guest', 'admin')}}, not a {type(changes).__name__}."
        )
    for name, pair in changes.items():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidAudit(f"changes[{name!r}] must be a pair of old and new, like ('guest', 'admin').")
    return {name: (pair[0], pair[1]) for name, pair in changes.items()}


def _metadata(given: Mapping[str, Any] | None, reason: str | None, context: Context, settings: Settings) -> str:
    added = {"reason": reason} if reason else {}
    if context.causation_id:
        added["causation_id"] = context.causation_id
    if added and (given is None or isinstance(given, Mapping)):
        given = {**added, **(given or {})}
    return encode(given, root="metadata", limit=settings.PAYLOAD_LIMIT_BYTES, depth=settings.PAYLOAD_DEPTH)
