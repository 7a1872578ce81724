"""Threads of a worker that run beside its loop: one seals the audit log, one plans rows whose changes triggers noted,
one counts what happened in each minute, one removes old rows.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

from django.db import DatabaseError, InterfaceError

from duebox.audit_log.seal import HeadsOutside, seal_all
from duebox.conf import conf
from duebox.exceptions import AuditHeadChanged, NotReady
from duebox.observe.rollup import AFTER, MOST_MINUTES, roll_up
from duebox.retention.prune import pause_after, prune
from duebox.schedules.capture import plan_changes
from duebox.schedules.plans import plans
from duebox.store import audit
from duebox.store.audit import Head
from duebox.worker.connections import close_connections, own_connection, replace_connections
from duebox.worker.tunables import TUNABLES
from duebox.worker.wakeup import Wakeup
from duebox.worker.watchdog import Watchdog, limit


class BackgroundThread:
    """One thread with a start and an end. `stop` only tells it to end; the worker waits for all of them together."""

    name = ""
    is_waited_for = True
    """Whether the worker waits for it when it stops."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, name=f"duebox-{self.name}", daemon=True)

    def run(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.stopping.set()

    def join(self, until: float) -> None:
        """Until this moment of the monotonic clock at most."""
        if self.is_waited_for and self.thread.is_alive():
            self.thread.join(max(0.0, until - time.monotonic()))


audit_logger = logging.getLogger("duebox.audit")


class AuditSealing(BackgroundThread):
    """Seals once a second, and once more when the worker stops."""

    name = "audit"

    def __init__(self, using: str, watchdog: Watchdog) -> None:
        super().__init__()
        self._using = using
        self._watchdog = watchdog
        self._heads_outside = HeadsOutside(using)
        self._seen: Head | None = None
        self._stop_by = float("inf")
        self._forget_at = time.monotonic() + TUNABLES.forget_writers_seconds

    def stop(self) -> None:
        self._stop_by = time.monotonic() + TUNABLES.stop_seal_seconds
        super().stop()

    def run(self) -> None:
        with own_connection(self._using, self._watchdog, "audit", engine=True):
            while not self.stopping.wait(self._seal_safely()):
                pass
            self._seal_safely()

    def _seal_safely(self) -> float:
        """Seconds until the next look."""
        try:
            replace_connections()
            self._seal()
        except AuditHeadChanged as error:
            audit_logger.error("%s", error)
            return TUNABLES.changed_head_seconds
        except (DatabaseError, InterfaceError) as error:
            close_connections()
            audit_logger.warning("audit entries not sealed yet: %s", str(error).strip())
        except Exception:
            audit_logger.exception("audit entries not sealed yet")
        finally:
            limit(None)
        return conf().AUDIT_SEAL_SECONDS

    def _seal(self) -> None:
        count, head = seal_all(self._using, until=self._is_over, seen=self._seen)
        limit()
        if head:
            self._seen = head
            audit_logger.debug("audit entries sealed: count=%d sequence=%d", count, head.sequence)
        self._heads_outside.send(head, now=self.stopping.is_set())
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + TUNABLES.forget_writers_seconds
            while audit.forget_writers(self._using) and not self._is_over():
                pass

    def _is_over(self) -> bool:
        """Asked before each batch, which has a limit of its own."""
        limit()
        return time.monotonic() > self._stop_by


logger = logging.getLogger("duebox.worker")


class RowChanges(BackgroundThread):
    """Plans rows that triggers noted as changed. The loop does not do it: a bulk update of 100,000 rows must not make a
    schedule late."""

    name = "row-changes"

    def __init__(self, using: str, watchdog: Watchdog, wakeup: Wakeup) -> None:
        super().__init__()
        self._using = using
        self._watchdog = watchdog
        self._wakeup = wakeup
        self.is_done = not plans()
        """Whether there was nothing left to plan at the last look."""

    def start(self) -> None:
        if not self.is_done:
            super().start()

    def stop(self) -> None:
        super().stop()
        self._wakeup.row_changes.set()

    def run(self) -> None:
        with own_connection(self._using, self._watchdog, "row-changes"):
            while not self.stopping.is_set():
                try:
                    replace_connections()
                    if count := plan_changes(self._using, until=self.stopping.is_set):
                        logger.debug("row changes planned: count=%d", count)
                    if not self.is_done:
                        self._report_done()
                except (DatabaseError, InterfaceError) as error:
                    close_connections()
                    logger.warning("row changes not planned, next try in 1 s: %s", str(error).strip())
                    self._pause()
                except Exception:
                    logger.exception("row changes not planned, next try in 1 s")
                    self._pause()
                self._wakeup.row_changes.wait(TUNABLES.row_changes_poll_seconds)
                self._wakeup.row_changes.clear()

    def _pause(self) -> None:
        """A NOTIFY does not shorten it. A worker that ends when it is idle does not wait for a plan that fails."""
        self._report_done()
        self.stopping.wait(TUNABLES.row_changes_poll_seconds)

    def _report_done(self) -> None:
        self.is_done = True
        self._wakeup.claim()


class Rollups(BackgroundThread):
    """Counts the last minute, a few seconds after it has ended. One worker counts, the others find that nothing is left
    to do. The connection is closed in between."""

    name = "rollups"

    def __init__(self, using: str, watchdog: Watchdog, *, at_once: bool = False) -> None:
        super().__init__()
        self._using = using
        self._watchdog = watchdog
        self._at_once = at_once
        """For a worker that ends when it is idle: it may not live until the minute has ended, and has no time for
        pauses."""
        self.catch_up_seconds = 0.0
        """After `stop` it goes on for so long, as long as there are minutes to count."""
        self._minutes = MOST_MINUTES
        self._stop_by = float("inf")

    def stop(self) -> None:
        self._stop_by = time.monotonic() + self.catch_up_seconds
        super().stop()

    def run(self) -> None:
        if self._at_once:
            self._roll_up_safely()
        while not self.stopping.wait(_seconds_to_rollup()):
            self._roll_up_safely()

    def _roll_up_safely(self) -> None:
        try:
            with own_connection(self._using, self._watchdog, "rollups", engine=True):
                self._roll_up()
        except (DatabaseError, InterfaceError, NotReady) as error:
            self._minutes = 1  # it may have taken too long
            logger.warning("per-minute statistics not updated, next try in a minute: %s", str(error).strip())
        except Exception:
            logger.exception("per-minute statistics not updated, next try in a minute")

    def _roll_up(self) -> None:
        while time.monotonic() < self._stop_by:
            limit()
            begun = time.monotonic()
            if not roll_up(self._using, minutes=self._minutes):
                break
            self._minutes = min(2 * self._minutes, MOST_MINUTES)
            limit(None)
            if not self._at_once:
                self.stopping.wait(pause_after(time.monotonic() - begun))


def _seconds_to_rollup() -> float:
    spread = random.uniform(0.1, TUNABLES.rollup_spread_seconds)  # noqa: S311 - no secret
    return 60.0 - time.time() % 60.0 + AFTER.total_seconds() + spread


retention_logger = logging.getLogger("duebox.retention")


class Retention(BackgroundThread):
    """Removes old rows once an hour, first a minute or two after the start. It has a connection only while it works. Of
    several workers one does it at a time."""

    name = "retention"

    def __init__(self, using: str, watchdog: Watchdog) -> None:
        super().__init__()
        self._using = using
        self._watchdog = watchdog
        self._cursors: dict[str, Any] = {}
        """Where the last run ended. Once a day a run begins with the oldest row: what was open then may be done."""
        self._from_oldest_at = 0.0

    def run(self) -> None:
        # Workers that start together do not prune at the same moment.
        wait = random.uniform(TUNABLES.first_prune_seconds, 2 * TUNABLES.first_prune_seconds)  # noqa: S311
        while not self.stopping.wait(wait):
            self.prune_safely()
            wait = TUNABLES.prune_seconds

    def prune_safely(self) -> None:
        if time.monotonic() >= self._from_oldest_at:
            self._from_oldest_at = time.monotonic() + TUNABLES.prune_from_oldest_seconds
            self._cursors.clear()
        try:
            with own_connection(self._using, self._watchdog, "retention", engine=True):
                limit()
                prune(self._using, patient=False, rest=self._rest, cursors=self._cursors)
        except (DatabaseError, InterfaceError, NotReady) as error:
            retention_logger.warning("old rows not removed, next try in an hour: %s", str(error).strip())
        except Exception:
            retention_logger.exception("old rows not removed, next try in an hour")

    def _rest(self, seconds: float) -> bool:
        limit(None)
        is_over = self.stopping.wait(seconds)
        limit()
        return is_over
