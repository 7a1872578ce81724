"""What the engine does for itself by its own clock: sweeps that are due, plans to be compared with their rows, webhooks
that were received long ago to be forgotten."""

from __future__ import annotations

import logging

from django.db import ProgrammingError

from duebox.conf import conf
from duebox.context import detached, handling
from duebox.exceptions import NotReady
from duebox.fact import Fact
from duebox.periodic import ensure_periodic
from duebox.plans import Plan, plans
from duebox.promise import Own
from duebox.rezone import rezone
from duebox.schedule import alias_in_use, cancel, schedule
from duebox.store import webhooks
from duebox.store.brief import Busy, brief
from duebox.subscribers import on
from duebox.sweeps import ensure_schedules
from duebox.when import every

logger = logging.getLogger("duebox.plans")
worker_logger = logging.getLogger("duebox.worker")

RECONCILE_KEY = "duebox:reconcile"


def prepare_upkeep(using: str) -> None:
    """At the start of a worker: schedule what the code declares, follow the zone database, and see to it that upkeep is
    scheduled."""
    ensure_periodic(using)
    rezone(using)
    hours = conf().RECONCILE_HOURS
    if plans() and hours:
        about = ("upkeep", "plans")  # so that handlers who take everything in order can take this too
        rule, key = every(hours=hours), RECONCILE_KEY
        with detached():
            schedule(Own("duebox.plans.reconcile"), about=about, repeat=rule, key=key, using=using)
    elif not hours:
        cancel(RECONCILE_KEY, using=using)
    ensure_schedules(using)


@on("duebox.plans.reconcile", name="duebox.reconcile", atomic=False)
def reconcile(event: Fact) -> None:
    """Compare every plan with the rows of its model; puts right what neither signals nor triggers have seen."""
    using = alias_in_use()
    outside = handling.set(None)  # what is healed has a story of its own, it was not caused by the upkeep
    try:
        problems = [_reconcile(plan, using) for plan in plans()]
    finally:
        handling.reset(outside)
    for problem in filter(None, problems):
        raise problem


def _reconcile(plan: Plan, using: str) -> Exception | None:
    """What went wrong, if something did: the other plans have their turn all the same."""
    try:
        logger.info("reconciled: plan=%s %s", plan.name, type(plan).reconcile(using=using))
    except Exception as error:
        logger.exception("not reconciled: plan=%s", plan.name)
        return error
    return None


def forget_receipts(using: str) -> bool:
    """Some of the webhooks that were received long ago; whether there may be more. It runs in the heartbeat, so it
    waits for nobody: the next one comes soon."""
    try:
        with brief(using):
            return webhooks.prune_some(using)
    except Busy:
        return False
    except (ProgrammingError, NotReady) as error:  # it may not, or not yet
        worker_logger.warning("receipts are kept, though old: %s", str(error).strip())
        return False
