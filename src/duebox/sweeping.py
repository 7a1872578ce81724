"""One run of a sweep: batch after batch, each a transaction of its own: stamp, emit, tell the trail."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections, transaction
from django.db.models import Model, QuerySet
from django.db.models.query import ModelIterable

from duebox import clock
from duebox.context import handling
from duebox.emit import New, aggregate_of, emit_many
from duebox.exceptions import InvalidPlan
from duebox.fact import Fact
from duebox.ids import uuid7
from duebox.store import schedules
from duebox.store.schedules import TrailLine
from duebox.store.sweeps import Found, Window, give_back, stamp, waiting

if TYPE_CHECKING:
    from duebox.sweeps import Sweep

logger = logging.getLogger("duebox.sweeps")

NOTE_LIMIT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one run did. `run` is in the metadata of its events and in its lines of the trail."""

    sweep: str
    run: str
    found: int = 0
    stamped: int = 0
    emitted: int = 0
    failed: int = 0
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.dry_run:
            return f"{self.sweep}: {self.found} would be swept"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.sweep}: {self.emitted} swept{failed}"


class Failed(NamedTuple):
    row: Model
    error: Exception


class Run:
    """The state of one run: which rows it asks for, and how far it has come."""

    def __init__(self, sweep: Sweep, window: Window, using: str) -> None:
        _drop_broken_connection(using)
        current = handling.get()
        self.id = str(uuid7())
        self._cause = current.fact.id if current else None
        self._sweep = sweep
        self._window = window
        self._using = using
        self._due = _asked(sweep, using)
        self._may_narrow = _may_narrow(self._due)
        # A run goes through the rows once, by their keys: what failed is not tried again, and it always ends.
        self._beyond: Any = None

    def count(self, limit: int | None) -> Swept:
        """How many rows a run would find now."""
        found = waiting(self._due, self._window, self._using)[:limit].count()
        return Swept(sweep=self._sweep.name, run=self.id, found=found, dry_run=True)

    def go(self, limit: int | None) -> Swept:
        """Sweep until nothing is found, or `limit` rows were."""
        # Inside a handler the events would all join its story; each row has one of its own.
        outside = handling.set(None)
        try:
            return self._go(limit)
        finally:
            handling.reset(outside)

    def _go(self, limit: int | None) -> Swept:
        total = Swept(sweep=self._sweep.name, run=self.id)
        while size := self._sweep.batch if limit is None else min(self._sweep.batch, limit - total.found):
            found, failed = self._batch(size)
            total = _sum(total, found, failed)
            if found < size:
                break
        if total.found:
            logger.info("swept: sweep=%s run=%s rows=%s failed=%s", total.sweep, self.id, total.emitted, total.failed)
        return total

    def _batch(self, size: int) -> tuple[int, int]:
        """How many rows were found, and how many of them failed."""
        with transaction.atomic(using=self._using):
            found = stamp(self._rest(), self._window, self._using, limit=size, beyond=self._beyond)
            if not found:
                return 0, 0
            facts, failed = self._emit(self._load(found))
            broken = {each.row.pk for each in failed}
            give_back([each for each in found if each.pk in broken], self._window, self._using)
            schedules.tell(self._using, [*map(self._swept_line, facts), *map(self._failed_line, failed)])
        self._beyond = found[-1].pk
        for each in failed:
            about = ":".join(aggregate_of(each.row))
            logger.error("row not swept: sweep=%s about=%s", self._sweep.name, about, exc_info=each.error)
        return len(found), len(failed)

    def _rest(self) -> QuerySet[Any]:
        """What is due behind the last batch. Left to the outer question alone, the inner one would begin at the first
        row each time (200 batches out of a million rows took twice as long)."""
        return self._due.filter(pk__gt=self._beyond) if self._beyond is not None and self._may_narrow else self._due

    def _load(self, found: Sequence[Found]) -> list[Model]:
        """The rows as `due` selects them, related rows and annotations included."""
        keys = [each.pk for each in found]
        rows = {row.pk: row for row in self._due.filter(pk__in=keys)} if self._may_narrow else {}
        missing = [key for key in keys if key not in rows]
        if missing:  # `due` asks for the stamp itself, or they changed just before they were locked, or it is a union
            rows |= self._sweep.model._base_manager.using(self._using).in_bulk(missing)
        return [rows[key] for key in keys]

    def _emit(self, rows: Sequence[Model]) -> tuple[list[Fact], list[Failed]]:
        """All in one round trip; if that fails, one by one, to find out whose fault it is."""
        try:
            return self._emit_together(rows), []
        except Exception:
            if self._is_undone():
                raise
        facts: list[Fact] = []
        failed: list[Failed] = []
        for row in rows:
            try:
                facts += self._emit_together([row])
            except Exception as error:
                if self._is_undone():
                    raise
                failed.append(Failed(row, error))
        return facts, failed

    def _emit_together(self, rows: Sequence[Model]) -> list[Fact]:
        with transaction.atomic(using=self._using):
            return emit_many([self._new(row) for row in rows], using=self._using)

    def _is_undone(self) -> bool:
        """Whether the whole batch is lost, which is no row's fault: the connection broke."""
        return transaction.get_rollback(using=self._using)

    def _new(self, row: Model) -> New:
        sweep = self._sweep
        return New(
            type=sweep.event,
            data=sweep.data(row),
            about=row,
            organization=sweep.organization(row),
            key=f"{sweep.name}:{row.pk}/{self.id}",
            causation_id=self._cause,
            metadata={"sweep": sweep.name, "run": self.id},
        )

    def _swept_line(self, fact: Fact) -> TrailLine:
        kind, key = fact.about or ("", "")
        return TrailLine("swept", self._sweep.name, "", kind, key, run=self.id, event_id=str(fact.id))

    def _failed_line(self, each: Failed) -> TrailLine:
        kind, key = aggregate_of(each.row)
        return TrailLine("failed", self._sweep.name, "", kind, key, run=self.id, note=_note(each.error))


def _asked(sweep: Sweep, using: str) -> QuerySet[Any]:
    """What the sweep calls due, if it can be worked with."""
    due = sweep.due(sweep.model._default_manager.using(using), clock.now())
    if not isinstance(due, QuerySet) or due.model._meta.concrete_model is not sweep.model._meta.concrete_model:
        raise InvalidPlan(f"due() of {sweep.name} gave {_shown(due)}; return the queryset it got, filtered.")
    if due.query.is_sliced:
        raise InvalidPlan(f"due() of {sweep.name} gave a slice of a queryset; leave that to batch and limit.")
    if not issubclass(due._iterable_class, ModelIterable):
        raise InvalidPlan(f"due() of {sweep.name} gave values() of rows; return the rows themselves.")
    return due.using(using)


def _may_narrow(due: QuerySet[Any]) -> bool:
    """Whether the question about some of the rows has the same answer for each as the question about all."""
    query = due.query
    across = any(getattr(each, "contains_over_clause", False) for each in query.annotations.values())
    return not (query.combinator or query.distinct_fields or across)


def _shown(thing: object) -> str:
    return f"a queryset of {thing.model.__name__}" if isinstance(thing, QuerySet) else f"a {type(thing).__name__}"


def _drop_broken_connection(using: str) -> None:
    """In a thread that sleeps for an hour, as a scheduler's do, nobody noticed that the database was restarted."""
    connection = connections[using]
    if connection.connection is not None and not connection.in_atomic_block and not connection.is_usable():
        connection.close()


def _sum(total: Swept, found: int, failed: int) -> Swept:
    done = found - failed
    return replace(
        total,
        found=total.found + found,
        stamped=total.stamped + done,
        emitted=total.emitted + done,
        failed=total.failed + failed,
    )


def _note(error: Exception) -> str:
    """What went wrong, without what PostgreSQL cannot store."""
    text = f"{type(error).__name__}: {error}"[:NOTE_LIMIT]
    return text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
