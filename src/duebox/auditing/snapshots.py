"""Rows as they are in the database at this moment: the only account of old and new that is true.

An instance may be stale, have columns left out, hold an expression, or a text where the column is a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from django.db import models

from duebox.auditing.changes import Values, of_row
from duebox.auditing.entry import entity_of, make
from duebox.auditing.homes import home_of
from duebox.auditing.policy import Policy
from duebox.auditing.story import Story, story
from duebox.identities import aggregate_type
from duebox.store.audits import Entry


class Snapshot(NamedTuple):
    pk: Any
    values: Values
    organization: str


_HOME = "duebox_audit_home"

Change = tuple[Snapshot | None, Snapshot | None]
"""What a row was, and what it is; None where there was or is none."""


def snapshots(
    model: type[models.Model],
    policy: Policy,
    keys: Collection[Any],
    using: str,
    *,
    lock: bool = False,
    skip_locked: bool = False,
) -> dict[Any, Snapshot]:
    """What is recorded of some rows, by primary key. Locked, they stay so until the transaction ends."""
    found = model._base_manager.using(using).filter(pk__in=keys).order_by("pk")
    # The way to an organization may lead through other tables, which are not to be locked: then it is asked apart.
    way, apart = policy.organization, lock and "__" in (policy.organization or "")
    columns = found.values("pk", *policy.columns(model), **({_HOME: models.F(way)} if way and not apart else {}))
    # NO KEY: nobody has to wait who adds another row that refers to this one.
    rows = columns.select_for_update(no_key=True, skip_locked=skip_locked) if lock else columns
    values = {row.pop("pk"): row for row in rows}
    homes = dict(found.values_list("pk", way)) if way and apart and values else {}
    return {pk: Snapshot(pk, row, home_of(row.pop(_HOME, homes.get(pk)))) for pk, row in values.items()}


def entries(model: type[models.Model], policy: Policy, changes: Iterable[Change]) -> list[Entry]:
    """An entry for each row that has changed."""
    kind = aggregate_type(model)
    found = [(change, text) for change in changes if (text := _text(kind, policy, change)) is not None]
    known = story() if found else Story()  # who asks may take a query
    noun = (model._meta.concrete_model or model)._meta.model_name or ""
    return [_entry(noun, kind, change, text, known) for change, text in found]


def _text(kind: str, policy: Policy, change: Change) -> str | None:
    before, after = change
    return of_row(kind, policy, before and before.values, after and after.values)


def _entry(noun: str, kind: str, change: Change, changes: str, known: Story) -> Entry:
    before, after = change
    verb = "updated" if before and after else "created" if after else "deleted"
    row = after or before
    assert row is not None
    entity = entity_of((kind, str(row.pk)))
    return make(f"{noun}.{verb}", entity, known, organization=row.organization, changes=changes)
