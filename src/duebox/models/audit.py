"""The audit log: entries, the seals of the chain, its head and keys, and the writers that number entries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from duebox.events.fact import Actor
from duebox.events.identities import actor_of, aggregate_of, identity
from duebox.exceptions import InvalidAudit


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Queries on the audit log."""

    def about(self, entity: str | models.Model, id: object = None) -> AuditQuerySet:
        """Entries about one entity: a model instance, or a type and an id."""
        kind, key = aggregate_of((entity, id) if isinstance(entity, str) else entity, "entity", InvalidAudit)
        return self.filter(entity_type=kind, entity_id=key)

    def by(self, actor: object) -> AuditQuerySet:
        """Entries of an actor, also while impersonating another. An actor is passed as in `emit`; a plain id means the
        actors of any type with this id."""
        who = actor_of(actor, error=InvalidAudit)
        if who is None:
            return self.filter(actor=None, impersonator=None)
        plain = isinstance(actor, str | int | UUID)
        return self.filter(_is("actor", who, plain) | _is("impersonator", who, plain))

    def of(self, organization: object) -> AuditQuerySet:
        """Entries of an organization; None for entries without one."""
        return self.filter(organization=identity(organization or None, "organization", InvalidAudit))

    def doing(self, action: str) -> AuditQuerySet:
        return self.filter(action=action)

    def correlated(self, correlation_id: str) -> AuditQuerySet:
        """Entries with this correlation id: everything that one request or first event caused."""
        return self.filter(correlation_id=correlation_id)

    def between(self, since: datetime | None = None, until: datetime | None = None) -> AuditQuerySet:
        """Entries from a moment (inclusive) to another one (exclusive); either may be left out."""
        found = self if since is None else self.filter(recorded_at__gte=since)
        return found if until is None else found.filter(recorded_at__lt=until)


def _is(column: str, who: Actor, any_type: bool) -> Q:
    # The expression of the index, which `actor__id=` would not use.
    found = Q(**{f"{column}__isnull": False}) & Q(Exact(KT(f"{column}__id"), Value(who.id)))
    return found if any_type else found & Q(**{f"{column}__type": who.type})


def name_of(stored: Any) -> str:
    """An actor for display, as in `user:42`. The stored value may have been tampered with."""
    if not isinstance(stored, dict):
        return "" if stored is None else str(stored)
    return ":".join(str(stored[part]) for part in ("type", "id") if part in stored)


class AuditColumns(models.Model):
    """The columns of an entry."""

    id = models.BigAutoField(primary_key=True)
    organization = models.TextField(db_default="")
    recorded_at = models.DateTimeField(db_default=Now())
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
    writer = models.BigIntegerField()
    writer_number = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        who = f" by {name_of(self.actor)}" if self.actor else ""
        return f"{self.action} {self.entity_type}:{self.entity_id}{who} at {self.recorded_at:%Y-%m-%d %H:%M:%S}"

    def save(self, *args: Any, **options: Any) -> NoReturn:
        raise InvalidAudit("Audit entries cannot be saved directly; write one with duebox.audit().")

    def delete(self, *args: Any, **options: Any) -> NoReturn:
        raise InvalidAudit(
            "Audit entries cannot be deleted directly; remove old ones with: manage.py duebox audit prune"
        )


class AuditEntry(AuditColumns):
    """An audit entry: an action of an actor on an entity, with the changes. Never updated.

    Written by `duebox.audit` and by audited models, in the transaction of the change. A worker seals it after the
    commit. This is a view of the rows of `StoredAuditEntry` and of the entries in `AuditBatch`.
    """

    objects = AuditQuerySet.as_manager()

    class Meta:
        managed = False
        db_table = "duebox_audit_entry"
        verbose_name_plural = "audit entries"


class StoredAuditEntry(AuditColumns):
    """An entry in a row of its own."""

    class Meta:
        db_table = "duebox_audit"
        verbose_name_plural = "stored audit entries"
        indexes = [
            # Each index is written with every entry, so there are few. One more, a BRIN index on recorded_at, is in
            # store/sql/indexes/duebox_audit_between.sql.
            models.Index(fields=["entity_id", "entity_type"], name="duebox_audit_about"),
            models.Index(KT("actor__id"), F("id"), condition=Q(actor__isnull=False), name="duebox_audit_by_actor"),
            models.Index(
                KT("impersonator__id"),
                F("id"),
                condition=Q(impersonator__isnull=False),
                name="duebox_audit_by_impersonator",
            ),
            models.Index(fields=["organization", "recorded_at"], name="duebox_audit_of_organization"),
            models.Index(fields=["correlation_id"], condition=~Q(correlation_id=""), name="duebox_audit_correlated"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["writer", "writer_number"], name="duebox_audit_numbered_once"),
            models.CheckConstraint(
                condition=~Q(action="") & ~Q(entity_type="") & ~Q(entity_id=""), name="duebox_audit_has_names"
            ),
        ]


class ArrayColumn(models.Field):  # type: ignore[type-arg]
    """A column of arrays. Django's own ArrayField needs `django.contrib.postgres` in INSTALLED_APPS."""

    def __init__(self, of: str, **options: Any) -> None:
        self.of = of
        super().__init__(**options)

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return f"{self.of}[]"

    def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
        name, path, args, options = super().deconstruct()
        return name, path, [self.of, *args], options


class AuditBatch(models.Model):
    """Up to 1,000 entries of a statement that changed many rows, in one row. To write them takes a small part of the
    time that as many rows with their indexes take. The worker that seals entries stores them in rows of their own.

    The number of an entry is `writer_number` and its place in the arrays, which begins with 0.
    """

    id = models.BigAutoField(primary_key=True)
    recorded_at = models.DateTimeField()
    actor = models.JSONField(null=True)
    impersonator = models.JSONField(null=True)
    correlation_id = models.TextField()
    ip = models.TextField()
    user_agent = models.TextField()
    metadata = models.JSONField()
    writer = models.BigIntegerField()
    writer_number = models.BigIntegerField()
    ids = ArrayColumn("bigint")
    organizations = ArrayColumn("text")
    actions = ArrayColumn("text")
    entity_types = ArrayColumn("text")
    entity_ids = ArrayColumn("text")
    changes = ArrayColumn("jsonb")

    class Meta:
        db_table = "duebox_audit_batch"
        verbose_name_plural = "audit batches"
        indexes = [models.Index(fields=["writer", "writer_number"], name="duebox_audit_batch_of_writer")]

    def __str__(self) -> str:
        return f"entries of writer {self.writer} from {self.writer_number} on"


class AuditSeal(models.Model):
    """The place of an entry in the chain. Sealed entries have places 1, 2, 3, and so on, without gaps."""

    sequence = models.BigIntegerField(primary_key=True)
    entry = models.OneToOneField(AuditEntry, models.DO_NOTHING, db_constraint=False, related_name="seal")
    entry_hash = models.BinaryField()
    hash = models.BinaryField()

    class Meta:
        db_table = "duebox_audit_seal"

    def __str__(self) -> str:
        return f"{self.sequence}: entry {self.entry_id}"


class AuditErasure(models.Model):
    """An entry whose values were erased: a keyed hash of the rest of it and of its seal. The seal itself is unchanged,
    so the chain can still be verified."""

    entry_id = models.BigIntegerField(primary_key=True)
    hash = models.BinaryField()
    erased_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "duebox_audit_erasure"

    def __str__(self) -> str:
        return f"entry {self.entry_id}, erased at {self.erased_at:%Y-%m-%d %H:%M:%S}"


class AuditHead(models.Model):
    """The end of the chain, and its beginning since older entries were pruned. One row, signed with a key that is not
    in the database; only the worker that seals entries and `duebox audit prune` lock it."""

    id = models.SmallIntegerField(primary_key=True, db_default=1)
    sequence = models.BigIntegerField(db_default=0)
    hash = models.BinaryField(db_default=bytes(32))
    pruned_sequence = models.BigIntegerField(db_default=0)
    pruned_hash = models.BinaryField(db_default=bytes(32))
    sealed_at = models.DateTimeField(null=True)
    signature = models.BinaryField(db_default=b"")

    class Meta:
        db_table = "duebox_audit_head"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="duebox_audit_head_is_one"),
            models.CheckConstraint(
                condition=Q(pruned_sequence__gte=0) & Q(sequence__gte=models.F("pruned_sequence")),
                name="duebox_audit_head_ends_after_its_beginning",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pruned_sequence + 1} to {self.sequence}"


class AuditWriter(models.Model):
    """The number of entries that a database session has written. It is counted in the transaction of the entries, so
    there are no gaps: a missing number is a removed entry."""

    id = models.BigAutoField(primary_key=True)
    process_id = models.IntegerField()
    number = models.BigIntegerField()

    class Meta:
        db_table = "duebox_audit_writer"
        indexes = [models.Index(fields=["process_id"], name="duebox_audit_writer_process")]

    def __str__(self) -> str:
        return f"writer {self.id}: {self.number}"


class AuditWriterSealed(models.Model):
    """The number up to which the entries of a writer are sealed."""

    writer = models.BigIntegerField(primary_key=True)
    number = models.BigIntegerField()

    class Meta:
        db_table = "duebox_audit_writer_sealed"

    def __str__(self) -> str:
        return f"writer {self.writer}: {self.number}"


class AuditKey(models.Model):
    """The key with which triggers hash values, derived from the key of the audit log: the HMAC key with its two
    paddings. Only the trigger functions read it; `migrate` writes it."""

    purpose = models.TextField(primary_key=True)
    inner_pad = models.BinaryField()
    outer_pad = models.BinaryField()

    class Meta:
        db_table = "duebox_audit_key"

    def __str__(self) -> str:
        return f"key of {self.purpose}"
