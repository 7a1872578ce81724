"""Many rows in a few statements, recorded all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from django.db import models, transaction

from duebox.auditing.gathering import gathering
from duebox.auditing.holding import held
from duebox.auditing.homes import heads_foreseen, heads_of
from duebox.auditing.policy import Policy, policy_of
from duebox.auditing.record import write
from duebox.auditing.snapshots import entries, snapshots
from duebox.exceptions import InvalidAudit
from duebox.store import audits

M = TypeVar("M", bound=models.Model)
BATCH = 2_000


class AuditedQuerySet(models.QuerySet[M]):
    """Bulk operations that are recorded row by row. `update`, `bulk_update` and `bulk_create` are not: Django tells
    nobody of them."""

    def audited_update(self, **values: Any) -> int:
        """`update`, recorded: the rows are locked and read, updated and read again. Gives how many matched."""
        policy, using, count = self._followed(), self._write_alias(), 0
        with transaction.atomic(using=using):
            for keys in self._held(policy, using):
                before = snapshots(self.model, policy, keys, using)
                count += self._rows(keys, using).update(**values)
                after = snapshots(self.model, policy, keys, using)
                write(entries(self.model, policy, [(before[key], after.get(key)) for key in before]), using)
        return count

    def audited_delete(self) -> tuple[int, dict[str, int]]:
        """`delete`, recorded with one look at the rows and one insert, and not with several for each of them."""
        policy, using, counts = self._followed(), self._write_alias(), Counter[str]()
        with transaction.atomic(using=using):
            for keys in self._held(policy, using):
                with gathering(self.model, snapshots(self.model, policy, keys, using), using):
                    counts.update(self._rows(keys, using).delete()[1])
        return counts.total(), dict(counts)

    def audited_create(self, rows: Iterable[M]) -> list[M]:
        """`bulk_create`, recorded."""
        policy, using, rows = self._followed(), self._write_alias(), list(rows)
        with transaction.atomic(using=using):
            if rows:
                audits.take(using, heads_foreseen(policy, rows, using))
            made = self.using(using).bulk_create(rows, batch_size=BATCH)
            for keys in _batches([row.pk for row in made]):
                after = snapshots(self.model, policy, keys, using)
                write(entries(self.model, policy, [(None, each) for each in after.values()]), using)
        return made

    def _followed(self) -> Policy:
        policy = policy_of(self.model)
        if policy is None:
            name = self.model.__name__
            raise InvalidAudit(
                f"{name} is not followed, so nothing is recorded of it; put @auditing.follow() above it."
            )
        return policy

    def _write_alias(self) -> str:
        self._for_write = True
        return self.db

    def _held(self, policy: Policy, using: str) -> Iterator[list[Any]]:
        """The keys of the rows, which nobody else can change from now on, in batches. Their heads are held too."""
        # As a question inside a question it may join, group and be cut off; none of that could be locked.
        rows = self.model._base_manager.using(using).filter(pk__in=self.using(using).values("pk")).order_by("pk")

        def read(*, skip_locked: bool) -> list[Any]:
            return list(rows.select_for_update(no_key=True, skip_locked=skip_locked).values_list("pk", flat=True))

        way = policy.organization
        homes = set(rows.order_by().values_list(way, flat=True).distinct()) if way else {None}
        if homes:
            yield from _batches(held(using, heads_of(homes), read, lacks=lambda found: len(found) < rows.count()))

    def _rows(self, keys: list[Any], using: str) -> models.QuerySet[M]:
        return self.model._base_manager.using(using).filter(pk__in=keys)


def _batches(keys: list[Any]) -> Iterator[list[Any]]:
    yield from (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))
