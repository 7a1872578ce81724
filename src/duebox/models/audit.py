from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.fields.json import KT
from django.db.models.lookups import Exact

from duebox.exceptions import InvalidAudit
from duebox.fact import Actor
from duebox.identities import actor_of, aggregate_of, identity


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Questions a person asks of the record."""

    def about(self, entity: str | models.Model, id: object = None) -> AuditQuerySet:
        """What happened to one entity: a model instance, or a type and an id."""
        kind, key = aggregate_of((entity, id) if isinstance(entity, str) else entity, "entity", InvalidAudit)
        return self.filter(entity_type=kind, entity_id=key)

    def by(self, actor: object) -> AuditQuerySet:
        """What somebody did, in their own name or in another one's. An actor is given as in `emit`; a plain id means
        the actors of any type that have it."""
        who = actor_of(actor, error=InvalidAudit)
        if who is None:
            return self.filter(actor=None, impersonator=None)
        plain = isinstance(actor, str | int | UUID)
        return self.filter(_is("actor", who, plain) | _is("impersonator", who, plain))

    def of(self, organization: object) -> AuditQuerySet:
        """What happened in an organization; None is what belongs to none."""
        return self.filter(organization=identity(organization or None, "organization", InvalidAudit))

    def doing(self, action: str) -> AuditQuerySet:
        return self.filter(action=action)

    def correlated(self, correlation_id: str) -> AuditQuerySet:
        """Everything that one request or first event caused."""
        return self.filter(correlation_id=correlation_id)

    def between(self, since: datetime | None = None, until: datetime | None = None) -> AuditQuerySet:
        """From a moment on, up to and without another one; either may be left out."""
        found = self if since is None else self.filter(recorded_at__gte=since)
        return found if until is None else found.filter(recorded_at__lt=until)


def _is(column: str, who: Actor, any_type: bool) -> Q:
    # By the expression of the index, which `actor__id=` would not use.
    found = Q(**{f"{column}__isnull": False}) & Q(Exact(KT(f"{column}__id"), Value(who.id)))
    return found if any_type else found & Q(**{f"{column}__type": who.type})


def name_of(stored: Any) -> str:
    """An actor as people read it, as in `user:42`. Somebody may have changed what is stored."""
    if not isinstance(stored, dict):
        return "" if stored is None else str(stored)
    return ":".join(str(stored[part]) for part in ("type", "id") if part in stored)


class AuditEntry(models.Model):
    """Who did what to what, and how it changed. A link of its organization's chain; never updated.

    Written by `duebox.audit` and by models that are followed, in the transaction of what they record.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.TextField(db_default="")
    sequence = models.BigIntegerField()
    recorded_at = models.DateTimeField()
    action = models.TextField()
    entity_type = models.TextField()
    entity_id = models.TextField()
    actor = models.JSONField(null=True)
    impersonator = models.JSONField(null=True)
    correlation_id = models.TextField(db_default="")
    ip = models.TextField(db_default="")
    user_agent = models.TextField(db_default="")
    changes = models.JSONField(default=dict)
    metadata = models.JSONField(default=dict)
    previous_hash = models.BinaryField()
    hash = models.BinaryField()

    objects = AuditQuerySet.as_manager()

    class Meta:
        db_table = "duebox_audit"
        indexes = [
            models.Index(fields=["entity_type", "entity_id", "id"], name="duebox_audit_about"),
            models.Index(KT("actor__id"), F("id"), condition=Q(actor__isnull=False), name="duebox_audit_by_actor"),
            models.Index(
                KT("impersonator__id"),
                F("id"),
                condition=Q(impersonator__isnull=False),
                name="duebox_audit_by_impersonator",
            ),
            models.Index(fields=["organization", "recorded_at", "sequence"], name="duebox_audit_of_organization"),
            models.Index(fields=["recorded_at"], name="duebox_audit_between"),
            models.Index(fields=["action", "id"], name="duebox_audit_doing"),
            models.Index(fields=["correlation_id"], condition=~Q(correlation_id=""), name="duebox_audit_correlated"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["organization", "sequence"], name="duebox_audit_one_chain"),
            models.CheckConstraint(condition=Q(sequence__gte=1), name="duebox_audit_counts_from_one"),
            models.CheckConstraint(
                condition=~Q(action="") & ~Q(entity_type="") & ~Q(entity_id=""), name="duebox_audit_has_names"
            ),
        ]

    def __str__(self) -> str:
        who = f" by {name_of(self.actor)}" if self.actor else ""
        return f"{self.action} {self.entity_type}:{self.entity_id}{who} at {self.recorded_at:%Y-%m-%d %H:%M:%S}"

    def save(self, *args: Any, **options: Any) -> NoReturn:
        raise InvalidAudit("An audit entry is never saved by hand; write one with duebox.audit().")

    def delete(self, *args: Any, **options: Any) -> NoReturn:
        raise InvalidAudit("An audit entry is never deleted by hand; it leaves by age: manage.py duebox audit prune")


class AuditHead(models.Model):
    """Where the chain of an organization ends, and where it begins since older entries were pruned.

    Whoever adds an entry holds this row until commit. The seal is a keyed hash over the other columns.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.TextField()
    sequence = models.BigIntegerField(db_default=0)
    hash = models.BinaryField(db_default=bytes(32))
    pruned_sequence = models.BigIntegerField(db_default=0)
    pruned_hash = models.BinaryField(db_default=bytes(32))
    seal = models.BinaryField(db_default=b"")

    class Meta:
        db_table = "duebox_audit_head"
        constraints = [
            # Not unique=True: Django would add a second index, for LIKE, that nobody needs.
            models.UniqueConstraint(fields=["organization"], name="duebox_audit_head_one_each"),
            models.CheckConstraint(
                condition=Q(pruned_sequence__gte=0) & Q(sequence__gte=models.F("pruned_sequence")),
                name="duebox_audit_head_ends_after_its_beginning",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.organization or '(none)'}: {self.pruned_sequence + 1} to {self.sequence}"
