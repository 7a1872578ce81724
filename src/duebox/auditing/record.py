"""Record: entries are written on the caller's own connection, in the caller's own transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import models, transaction

from duebox.auditing import chain
from duebox.auditing.changes import Values, as_given
from duebox.auditing.doubt import doubts
from duebox.auditing.entry import Entity, entity_of, make
from duebox.auditing.policy import Pair, Policy, policies_named, policy_of
from duebox.auditing.story import Story, story
from duebox.auditing.text import identity
from duebox.conf import Settings
from duebox.context import handling
from duebox.emit import ready_settings
from duebox.exceptions import InvalidAudit
from duebox.identities import actor_of
from duebox.payload import encode
from duebox.store import audits
from duebox.store.audits import Entry, Row

if TYPE_CHECKING:
    from duebox.models import AuditEntry


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
    Of `before` and `after` only what differs is kept, and of a followed model only what its policy shows. Two round
    trips. Other entries of the same organization wait until your transaction ends.
    """
    settings = ready_settings()
    about = entity_of(entity)
    known = _with_given(story(), actor, impersonator)
    entry = make(
        action,
        about,
        known,
        organization=identity(organization, "organization"),
        changes=as_given(about[0], _policies(entity), settings, before=before, after=after, changes=changes),
        metadata=_metadata(metadata, reason, known, settings),
    )
    current = handling.get()
    [row] = write([entry], using or (current.using if current else settings.DATABASE))
    return _as_model(row)


def write(entries: Sequence[Entry], using: str) -> list[Row]:
    """Add entries to the chains of their organizations; those of one organization in the order given."""
    if not entries:
        return []
    with transaction.atomic(using=using, savepoint=False):
        opened = audits.open_chains(using, entries)
        if doubtful := doubts({each.head for each in opened}):
            entries = [*doubtful, *entries]
            opened = audits.open_chains(using, entries)
        rows, heads = chain.linked(entries, opened)
        audits.write(using, rows, heads)
    return rows[len(doubtful) :]


def _policies(entity: Entity) -> list[Policy]:
    if not isinstance(entity, models.Model):
        return policies_named(entity[0])
    policy = policy_of(type(entity))
    return [policy] if policy else []


def _with_given(known: Story, actor: object, impersonator: object) -> Story:
    for name, value in (("actor", actor), ("impersonator", impersonator)):
        if value is not None and (who := actor_of(value, name, InvalidAudit)):
            known = known._replace(**{name: who.to_json()})
    return known


def _metadata(given: Mapping[str, Any] | None, reason: str | None, known: Story, settings: Settings) -> str:
    added = {"reason": reason} if reason else {}
    if known.causation_id:
        added["causation_id"] = known.causation_id
    if added and (given is None or isinstance(given, Mapping)):
        given = {**added, **(given or {})}
    return encode(given, root="metadata", limit=settings.PAYLOAD_LIMIT_BYTES, depth=settings.PAYLOAD_DEPTH)


def _as_model(row: Row) -> AuditEntry:
    from duebox.models import AuditEntry  # here: `import duebox` comes before Django knows its apps

    columns = row._asdict() | {"recorded_at": row.recorded_at}
    texts = {name: columns[name] for name in ("changes", "metadata", "actor", "impersonator")}
    columns |= {name: json.loads(text) if text else None for name, text in texts.items()}
    del columns["microseconds"]
    return AuditEntry(**columns)
