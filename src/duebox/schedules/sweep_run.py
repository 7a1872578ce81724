"""One run of a sweep: first the rows with dead letters, then the due rows, then the failed rows again.

Batch after batch, each a transaction of its own: stamp the rows, emit their events, write the schedule log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.models import Field, Model, QuerySet
from django.db.models.query import ModelIterable

from duebox import clock
from duebox.context import metrics
from duebox.context.current import handling
from duebox.events.emit import NewEvent, emit_many, emit_to
from duebox.events.fact import Fact
from duebox.events.identities import aggregate_of, uuid7
from duebox.events.outcomes import Dead, Retried
from duebox.events.subscribers import by_name, receivers_of
from duebox.exceptions import InvalidPlan
from duebox.store import schedules, sweeps
from duebox.store.schedules import ScheduleLogLine
from duebox.store.sweeps import DeadRow, Found, Window

if TYPE_CHECKING:
    from duebox.schedules.sweeps import Sweep

logger = logging.getLogger("duebox.sweeps")

DATABASE_ERRORS = (OperationalError, InterfaceError)
DATABASE_WAITS = (1.0, 2.0, 4.0)
PAGE = 50_000
"""How many keys are read at a time."""
NOTE_LIMIT = 2000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one run did. `run` is in the metadata of its events and in its lines of the schedule log."""

    sweep: str
    run: str
    found: int = 0
    stamped: int = 0
    emitted: int = 0
    again: int = 0
    """How many of those were found again because a handler gave up."""
    failed: int = 0
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.dry_run:
            return f"{self.sweep}: {self.found} would be swept"
        again = f" ({self.again} again)" if self.again else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.sweep}: {self.emitted} swept{again}{failed}"


class Taken(NamedTuple):
    """Rows that are stamped and locked, and what else is to be done with them."""

    found: Sequence[Found]
    dead: Mapping[Any, DeadRow] = MappingProxyType({})
    """The same rows by key, if they were found again because of dead letters."""
    given_up: Sequence[int] = ()
    """Dead letters of rows that wait in any case, and are found with all the others."""


class Failed(NamedTuple):
    item: Any
    """The key of the row, or the row of a dead letter."""
    row: Model
    error: Exception
    fate: Retried | Dead
    """Whether this run tries it again."""


class Done(NamedTuple):
    """The results of one batch."""

    facts: Sequence[Fact]
    failed: Sequence[Failed]
    again: int


class Run:
    """The state of one run: which rows it asks for, and what it has done so far."""

    def __init__(self, sweep: Sweep, stamp: Field[Any, Any], using: str) -> None:
        current = handling.get()
        self.id = str(uuid7())
        self._cause = current.fact.id if current else None
        self._sweep = sweep
        self._stamp = stamp
        self._using = using
        self._room: int | None = None
        """How many more rows may be found; None: any number."""
        self._passed: set[Any] = set()
        """Keys of rows that this run has tried or passed over, and that may still be waiting."""
        self._later: list[tuple[Any, float]] = []
        """What is to be tried again, and after how many seconds. Not the errors: they hold on to whole batches."""
        self._found = self._emitted = self._again = self._failed = 0

    def count(self, limit: int | None) -> Swept:
        """How many rows a run would find now."""
        found = self._reported(self._count)
        found = found if limit is None else min(found, limit)
        return Swept(sweep=self._sweep.name, run=self.id, found=found, dry_run=True)

    def go(self, limit: int | None) -> Swept:
        """Sweep until nothing is found, or `limit` rows were."""
        self._room = limit
        # In a handler all events would get its correlation id; each row has one of its own.
        outside = handling.set(None)
        try:
            return self._reported(self._go)
        finally:
            handling.reset(outside)

    def _count(self) -> int:
        self._patiently(self._begin)
        return self._patiently(self._count_waiting) + self._patiently(self._count_dead)

    def _go(self) -> Swept:
        started = time.monotonic()
        logger.info("sweep started: sweep=%s run=%s", self._sweep.name, self.id, extra=self._fields())
        self._patiently(self._begin)
        self._sweep_dead()
        self._sweep_waiting()
        self._retry_failed()
        seconds = time.monotonic() - started
        counts = {"found": self._found, "emitted": self._emitted, "again": self._again, "failed": self._failed}
        logger.info(
            "sweep ended: sweep=%s run=%s found=%d emitted=%d again=%d failed=%d seconds=%.1f",
            self._sweep.name, self.id, *counts.values(), seconds,
            extra=self._fields(**counts, seconds=round(seconds, 3)),
        )  # fmt: skip
        metrics.SWEEP_ROWS.add_many({(self._sweep.name, result): count for result, count in counts.items()})
        return Swept(
            sweep=self._sweep.name, run=self.id, found=self._found, stamped=self._emitted, emitted=self._emitted,
            again=self._again, failed=self._failed,
        )  # fmt: skip

    def _begin(self) -> None:
        _drop_broken_connection(self._using)
        self._window = Window(self._stamp, self._sweep.again_after, sweeps.now(self._using))
        self._due = _asked(self._sweep, self._using, self._window.since)

    # Rows that wait

    def _sweep_waiting(self) -> None:
        more = True
        while more and self._room != 0:
            keys, more = self._patiently(self._page)
            self._sweep_all(keys, self._take_waiting)

    def _page(self) -> tuple[list[Any], bool]:
        """Keys of waiting rows in the order of the query, and whether there may be more than these.

        Rows that failed or were locked still wait, so the query asks for that many more, and they are left out here.
        The more of them there are, the larger the page is: the work stays in proportion to the number of rows.
        """
        size = max(PAGE, len(self._passed))
        if self._room is not None:
            size = min(size, max(self._room, self._sweep.batch))
        while True:
            limit = size + len(self._passed)
            keys = sweeps.waiting_keys(self._due, self._window, self._using, limit=limit)
            fresh = [key for key in dict.fromkeys(keys) if key not in self._passed]
            if fresh or len(keys) < limit:
                return fresh, len(keys) == limit
            size *= 2  # a query that joins gives a row several times

    def _take_waiting(self, keys: Sequence[Any]) -> Taken:
        self._passed.update(keys)
        return Taken(sweeps.stamp(self._due, self._window, self._using, keys))

    def _count_waiting(self) -> int:
        return sweeps.waiting(self._due, self._window, self._using).count()

    # Rows whose event ended as a dead letter

    def _sweep_dead(self) -> None:
        self._sweep_all(self._patiently(self._dead_rows), self._take_dead)

    def _dead_rows(self) -> list[DeadRow]:
        names = [name for each in receivers_of(self._sweep.event) for name in (each.name, *each.aliases)]
        if self._sweep.on_dead != "again" or not names:
            return []
        return list(sweeps.dead_rows(self._using, self._window, self._sweep.name, names, limit=PAGE))

    def _take_dead(self, given: Sequence[DeadRow]) -> Taken:
        """Whoever redrives a dead letter, or replaces it by the event of a later run, locks it first: only one of both
        happens. A row is found again only while it has the stamp that it got with the event of the letter."""
        rows = sweeps.hold_dead(self._using, given)
        if not rows:
            return Taken(())
        released, expired = sweeps.release(rows, self._window, self._using)
        dead = {each.pk: each for each in released}
        found = sweeps.stamp(self._due, self._window, self._using, list(dead)) if dead else []
        found = [each._replace(before=dead[each.pk].before) for each in found]
        for pk in {*dead} - {each.pk for each in found}:  # it is not due any more
            sweeps.restore({pk: dead.pop(pk).before}, self._window, self._using)
        waiting = self._waiting_among(expired)
        return Taken(found, dead, [id for each in rows if each.pk in waiting for id in each.letters])

    def _waiting_among(self, keys: Collection[Any]) -> set[Any]:
        if not keys:
            return set()
        due = sweeps.narrowed(self._due, [*keys])
        rows = sweeps.waiting(due, self._window, self._using).filter(pk__in=keys)
        return set(rows.values_list("pk", flat=True))

    def _count_dead(self) -> int:
        found = 0
        for some in self._parts(self._dead_rows()):
            with transaction.atomic(using=self._using):
                found += len(self._take_dead(some).found)
                transaction.set_rollback(True, using=self._using)
        return found

    # Rows that failed

    def _retry_failed(self) -> None:
        """All of them together, so that they hold up the run for a few seconds, however many there are."""
        attempt = 1
        self._room = None  # they have been counted
        while self._later:
            later, self._later, attempt = self._later, [], attempt + 1
            _wait(max(seconds for _, seconds in later))
            self._sweep_all([each for each, _ in later if isinstance(each, DeadRow)], self._take_dead, attempt)
            self._sweep_all([each for each, _ in later if not isinstance(each, DeadRow)], self._take_waiting, attempt)

    # A batch

    def _sweep_all(self, items: Sequence[T], take: Callable[[Sequence[T]], Taken], attempt: int = 1) -> None:
        for some in self._parts(items):
            done = self._patiently(partial(self._batch, some, take, attempt))
            self._note(done, first=attempt == 1)

    def _parts(self, items: Iterable[T]) -> Iterator[list[T]]:
        """As many at a time as a batch may have, and not more than there is room for."""
        rest, size = iter(items), self._sweep.batch
        while part := list(islice(rest, size if self._room is None else min(size, self._room))):
            yield part

    def _batch(self, items: Sequence[T], take: Callable[[Sequence[T]], Taken], attempt: int) -> Done:
        with transaction.atomic(using=self._using):
            taken = take(items)
            facts, failed = self._emit(taken, attempt)
            broken = {each.row.pk for each in failed}
            before = {each.pk: each.before for each in taken.found if each.pk in broken}
            sweeps.restore(before, self._window, self._using)
            replaced = [each for pk, each in taken.dead.items() if pk not in broken]
            given_up = [*taken.given_up, *(id for each in replaced for id in each.letters)]
            sweeps.give_up_dead(self._using, given_up, f"sweep {self._sweep.name} found the row again: run {self.id}")
            self._tell(facts, failed, note="again: a handler of the event before gave up" if taken.dead else "")
        self._passed -= {each.pk for each in taken.found} - broken
        return Done(facts, failed, len(replaced))

    def _note(self, done: Done, *, first: bool) -> None:
        if first:
            found = len(done.facts) + len(done.failed)
            self._found += found
            self._room = None if self._room is None else self._room - found
        self._emitted += len(done.facts)
        self._again += done.again
        for each in done.failed:
            about = ":".join(aggregate_of(each.row))
            if isinstance(each.fate, Retried):
                self._later.append((each.item, each.fate.after_seconds))
                told = "row not swept, trying again in this run: sweep=%s about=%s"
                logger.warning(told, self._sweep.name, about, exc_info=each.error, extra=self._fields(about=about))
            else:
                self._failed += 1
                told = "row not swept: sweep=%s about=%s"
                logger.error(told, self._sweep.name, about, exc_info=each.error, extra=self._fields(about=about))

    def _tell(self, facts: Sequence[Fact], failed: Sequence[Failed], *, note: str) -> None:
        """A line for every event, and for every row that this run does not try again."""
        lines = [self._line("swept", *(fact.about or ("", "")), event_id=str(fact.id), note=note) for fact in facts]
        for each in failed:
            if isinstance(each.fate, Dead):
                lines.append(self._line("failed", *aggregate_of(each.row), note=_note(each.error)))
        schedules.write_log(self._using, lines)

    def _line(self, what: str, kind: str, key: str, **more: Any) -> ScheduleLogLine:
        return ScheduleLogLine(what, self._sweep.name, "", kind, key, run=self.id, **more)

    def _emit(self, taken: Taken, attempt: int) -> tuple[list[Fact], list[Failed]]:
        """All in one round trip; if that fails, one by one, to find the row that fails."""
        if not taken.found:
            return [], []
        rows = self._load(taken.found)
        try:
            return self._emit_together(rows, taken), []
        except Exception:
            if self._is_undone():
                raise
        facts: list[Fact] = []
        failed: list[Failed] = []
        for row in rows:
            try:
                facts += self._emit_together([row], taken)
            except Exception as error:
                if self._is_undone():
                    raise
                fate = self._sweep.retry.outcome(error, attempt)
                failed.append(Failed(taken.dead.get(row.pk, row.pk), row, error, fate))
        return facts, failed

    def _load(self, found: Sequence[Found]) -> list[Model]:
        """The rows as `due` selects them, related rows and annotations included."""
        keys = [each.pk for each in found]
        may_narrow = sweeps.may_narrow(self._due)
        rows = {row.pk: row for row in self._due.filter(pk__in=keys)} if may_narrow else {}
        missing = [key for key in keys if key not in rows]
        if missing:  # `due` asks for the stamp itself, or they changed just before they were locked, or it is a union
            rows |= self._sweep.model._base_manager.using(self._using).in_bulk(missing)
        return [rows[key] for key in keys]

    def _emit_together(self, rows: Sequence[Model], taken: Taken) -> list[Fact]:
        stamped_at = taken.found[0].stamp.astimezone(UTC).isoformat()  # one statement has stamped them all
        with transaction.atomic(using=self._using):
            events = [self._new(row, stamped_at) for row in rows]
            if not taken.dead:
                return emit_many(events, using=self._using)
            names = [{by_name()[name].name for name in taken.dead[row.pk].letters.values()} for row in rows]
            return emit_to([*zip(events, names, strict=True)], using=self._using)

    def _is_undone(self) -> bool:
        """Whether the whole batch is lost, which is no row's fault: the connection broke."""
        return transaction.get_rollback(using=self._using)

    def _new(self, row: Model, stamped_at: str) -> NewEvent:
        sweep = self._sweep
        return NewEvent(
            type=sweep.event,
            data=sweep.data(row),
            about=row,
            organization=sweep.organization(row),
            idempotency_key=f"{sweep.name}:{row.pk}/{self.id}",
            causation_id=self._cause,
            metadata={"sweep": sweep.name, "run": self.id, "stamped_at": stamped_at},
        )

    # The database

    def _patiently(self, action: Callable[[], T]) -> T:
        """Database errors pass: try again after 1, 2 and 4 seconds. A transaction of the caller is lost, though."""
        for wait in DATABASE_WAITS:
            try:
                return action()
            except DATABASE_ERRORS as error:
                if connections[self._using].in_atomic_block:
                    raise
                told = "database error, trying again in %g s: sweep=%s run=%s %s"
                logger.warning(told, wait, self._sweep.name, self.id, str(error).strip(), extra=self._fields())
                _wait(wait)
                _drop_broken_connection(self._using)
        return action()

    def _reported(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except DATABASE_ERRORS as error:
            told = "sweep skipped: sweep=%s run=%s database error: %s"
            logger.error(told, self._sweep.name, self.id, str(error).strip(), extra=self._fields())
            raise

    def _fields(self, **more: Any) -> dict[str, Any]:
        """For structured logs."""
        return {"sweep": self._sweep.name, "worker_run_id": self.id, **more}


def _asked(sweep: Sweep, using: str, now: datetime) -> QuerySet[Any]:
    """The queryset of `due`. Raises an error if it cannot be used."""
    due = sweep.due(sweep.model._default_manager.using(using), now)
    if not isinstance(due, QuerySet) or due.model._meta.concrete_model is not sweep.model._meta.concrete_model:
        raise InvalidPlan(f"due() of {sweep.name} gave {_shown(due)}; return the queryset it got, filtered.")
    if due.query.is_sliced:
        raise InvalidPlan(f"due() of {sweep.name} gave a slice of a queryset; leave that to batch and limit.")
    if not issubclass(due._iterable_class, ModelIterable):
        raise InvalidPlan(f"due() of {sweep.name} gave values() of rows; return the rows themselves.")
    if due.query.combinator and due.query.order_by:
        raise InvalidPlan(
            f"due() of {sweep.name} gave an ordered {due.query.combinator}(), whose order cannot be kept; "
            "join the conditions with Q(...) | Q(...) instead, or leave order_by out."
        )
    return due.using(using)


def _shown(thing: object) -> str:
    return f"a queryset of {thing.model.__name__}" if isinstance(thing, QuerySet) else f"a {type(thing).__name__}"


def _drop_broken_connection(using: str) -> None:
    """In a thread that sleeps for an hour the connection may be broken, because the database was restarted."""
    connection = connections[using]
    if connection.connection is not None and not connection.in_atomic_block and not connection.is_usable():
        connection.close()


def _wait(seconds: float) -> None:
    if clock.override() is None:  # on another clock, time passes when a test says so
        time.sleep(seconds)


def _note(error: Exception) -> str:
    """The error, without characters that PostgreSQL cannot store."""
    text = f"{type(error).__name__}: {error}"[:NOTE_LIMIT]
    return text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
