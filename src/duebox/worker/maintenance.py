"""Maintenance: when a worker starts, it stores the schedules that the code declares and follows the zone database; by a
schedule of their own, plans are compared with their rows.
"""

from __future__ import annotations

import logging

from duebox.conf import conf
from duebox.context.current import detached, handling
from duebox.contracts.enforce import Own
from duebox.events.fact import Fact
from duebox.events.subscribers import on
from duebox.schedules.periodic import ensure_periodic
from duebox.schedules.plans import Plan, plans
from duebox.schedules.schedule import alias_in_use, cancel, schedule
from duebox.schedules.sweeps import ensure_schedules
from duebox.schedules.tzdata_update import rezone
from duebox.when import every
from duebox.worker.background_threads import BackgroundThread
from duebox.worker.connections import close_connections, own_connection
from duebox.worker.tunables import TUNABLES
from duebox.worker.wakeup import Wakeup
from duebox.worker.watchdog import Watchdog

logger = logging.getLogger("duebox.plans")
worker_logger = logging.getLogger("duebox.worker")

RECONCILE_KEY = "duebox:reconcile"


class Maintenance(BackgroundThread):
    """Runs `start_maintenance` once, and again while it fails. The loop does not do it: after an update of the zone
    database there may be a million schedules to look at."""

    name = "maintenance"
    is_waited_for = False

    def __init__(self, using: str, watchdog: Watchdog, wakeup: Wakeup, *, until_idle: bool) -> None:
        super().__init__()
        self._using = using
        self._watchdog = watchdog
        self._wakeup = wakeup
        self._until_idle = until_idle
        self.is_done = False

    def run(self) -> None:
        try:
            with own_connection(self._using, self._watchdog, "maintenance"):
                self._start_patiently()
        finally:
            self.is_done = True
            self._wakeup.notified()

    def _start_patiently(self) -> None:
        waits = TUNABLES.retry_waits
        failures = 0
        while not self.stopping.is_set():
            try:
                return start_maintenance(self._using)
            except Exception:
                if self._until_idle and failures == len(waits):
                    return worker_logger.exception("maintenance failed; the next run tries again")
                wait = waits[failures] if failures < len(waits) else TUNABLES.maintenance_retry_seconds
                failures += 1
                worker_logger.exception("maintenance failed; next try in %g s", wait)
                close_connections()
                self.stopping.wait(wait)
        return None


def start_maintenance(using: str) -> None:
    """Schedule what the code declares, follow the zone database, and schedule the comparison of plans."""
    ensure_periodic(using)
    rezone(using)
    hours = conf().RECONCILE_HOURS
    if plans() and hours:
        about = ("upkeep", "plans")  # so that handlers that take all events in order can take this one, too
        rule, key = every(hours=hours), RECONCILE_KEY
        with detached():
            schedule(Own("duebox.plans.reconcile"), about=about, repeat=rule, key=key, using=using)
    elif not hours:
        cancel(RECONCILE_KEY, using=using)
    ensure_schedules(using)


@on("duebox.plans.reconcile", name="duebox.reconcile", atomic=False)
def reconcile(event: Fact) -> None:
    """Compare every plan with the rows of its model, for changes that neither signals nor triggers have seen."""
    using = alias_in_use()
    token = handling.set(None)  # the events of these plans were not caused by this event
    try:
        problems = [_reconcile(plan, using) for plan in plans()]
    finally:
        handling.reset(token)
    for problem in filter(None, problems):
        raise problem


def _reconcile(plan: Plan, using: str) -> Exception | None:
    """Returns the error, if there was one, so that the other plans are compared all the same."""
    try:
        logger.info("reconciled: plan=%s %s", plan.name, type(plan).reconcile(using=using), extra={"plan": plan.name})
    except Exception as error:
        logger.exception("not reconciled: plan=%s", plan.name)
        return error
    return None
