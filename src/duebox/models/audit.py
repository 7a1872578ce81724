from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from django.db import models
from django.db.models import Q

from duebox.exceptions import InvalidAudit


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Questions a person asks of the record."""

    def about(self, entity_type: str, entity_id: object) -> AuditQuerySet:
        """What happened to one row."""
        return self.filter(entity_type=entity_type, entity_id=str(entity_id))

    def by(self, actor: object) -> AuditQuerySet:
        """What somebody did, in their own name or in another one's."""
        name = _name(actor)
        return self.filter(Q(actor=name) | Q(impersonator=name))

    def of(self, organization: object) -> AuditQuerySet:
        """What happened in an organization; None is what belongs to none."""
        return self.filter(organization=_name(organization))

    def doing(self, action: str) -> AuditQuerySet:
        return self.filter(action=action)

    def correlated(self, correlation_id: str) -> AuditQuerySet:
        """Everything that one request or first event caused."""
        return self.filter(correlation_id=correlation_id)

    def between(self, since: datetime | None = None, until: datetime | None = None) -> AuditQuerySet:
        """From a moment on, up to and without another one; either may be left out."""
        found = self if since is None else self.filter(recorded_at__gte=since)
        return found if until is None else found.filter(recorded_at__lt=until)


def _name(value: object) -> str:
    value = getattr(value, "pk", value)
    return "" if value is None else str(value)


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
    actor = models.TextField(db_default="")
    impersonator = models.TextField(db_default="")
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
            models.Index(fields=["actor", "id"], condition=~Q(actor=""), name="duebox_audit_by_actor"),
            models.Index(
                fields=["impersonator", "id"], condition=~Q(impersonator=""), name="duebox_audit_by_impersonator"
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
        who = f" by {self.actor}" if self.actor else ""
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
