"""An entry from what is known and what is said, or the error that tells what is wrong with it."""

from __future__ import annotations

import re

from django.db import models

from duebox.auditing.story import Story
from duebox.exceptions import InvalidAudit
from duebox.identities import LIMIT, aggregate_of
from duebox.store.audits import Entry

Entity = models.Model | tuple[str, object]

_ACTION = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")


def entity_of(entity: Entity) -> tuple[str, str]:
    """What an entry is about, as (type, id)."""
    if entity is None:
        raise InvalidAudit("entity is None; pass a saved model instance, or a pair like ('shop.order', 42).")
    return aggregate_of(entity, "entity", InvalidAudit)


def make(
    action: str, entity: tuple[str, str], known: Story, *, organization: str, changes: str, metadata: str = "{}"
) -> Entry:
    if not isinstance(action, str) or not _ACTION.fullmatch(action) or len(action) > LIMIT:
        raise InvalidAudit(f"action={action!r} is not a name; use lower snake case like 'member.removed'.")
    return Entry(
        organization=organization or known.organization,
        action=action,
        entity_type=entity[0],
        entity_id=entity[1],
        actor=known.actor,
        impersonator=known.impersonator,
        correlation_id=known.correlation_id,
        ip=known.ip,
        user_agent=known.user_agent,
        changes=changes,
        metadata=metadata,
    )
