"""The engine run by Celery: its workers deliver, beat sees to it that nothing is left lying.

`duebox.deliver`    sent after a commit where DUEBOX['MODE'] is "celery"
`duebox.sweep`      sent by beat: the same, for whatever became due, failed before, or was left by a worker that died
`duebox.prune`      sent by beat: lets the oldest audit entries go
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded

from duebox.auditing import prune as let_go
from duebox.conf import conf
from duebox.destinations.celery import remember_app
from duebox.destinations.configured import subscriptions
from duebox.entrypoints.celery_kick import kick
from duebox.entrypoints.celery_reports import connect
from duebox.entrypoints.in_time import deliver_in_time
from duebox.fact import Actor
from duebox.store import handed_over
from duebox.worker.inline import deliver_here

logger = logging.getLogger("duebox.worker")

RUN_SECONDS = 20.0
"""A Celery worker that is to stop waits for its tasks; so a run begins nothing after this, and asks for the next."""
WITHIN_LIMIT = 0.9


@shared_task(bind=True, name="duebox.deliver", ignore_result=True)  # type: ignore[untyped-decorator]
def deliver(self: Any, database: str | None = None) -> dict[str, int] | None:
    """Deliver what is due. Two at the same time share the work; none delivers what the other has."""
    return _run(self, database or conf().DATABASE)


@shared_task(bind=True, name="duebox.sweep", ignore_result=True)  # type: ignore[untyped-decorator]
def sweep(self: Any, database: str | None = None) -> dict[str, int] | None:
    """The same by the clock: retries, moments of schedules, plans, and what workers that died have left."""
    return _run(self, database or conf().DATABASE)


@shared_task(name="duebox.prune", ignore_result=True)  # type: ignore[untyped-decorator]
def prune(database: str | None = None) -> None:
    """Let go what is older than AUDIT_YEARS, and notes of tasks that have ended."""
    using = database or conf().DATABASE
    for each in subscriptions().values():
        handed_over.prune(using, each.name)
    for pruned in let_go(using, actor=Actor("system", "duebox.prune")):
        if pruned.flaw:
            logger.error("audit entries kept, something is wrong: organization=%s %s", pruned.organization, pruned.flaw)


def _run(task: Any, using: str) -> dict[str, int] | None:
    if task.request.is_eager:
        deliver_here(using)  # in this thread and on this connection, as the test or the request has it
        return None
    (seconds, grace), started = _times(task), time.monotonic()
    try:
        counts = deliver_in_time(seconds, using=using, grace=grace)
    except SoftTimeLimitExceeded:
        # It ends before the limit unless the machine stalls. What does not run is given back on the way out.
        logger.warning("stopped by the soft time limit of Celery; the next one goes on")
        return None
    if time.monotonic() - started > seconds / 2:
        kick(using)  # there may be more
    return counts


def _times(task: Any) -> tuple[float, float]:
    """How long handlers are begun, and how long those that run then may take, so that neither limit of Celery is met.
    Where there is none they take the time that they need."""
    hard, soft = task.request.timelimit or (None, None)
    config = task.app.conf
    soft = soft or task.soft_time_limit or config.task_soft_time_limit
    hard = hard or task.time_limit or config.task_time_limit
    limit = WITHIN_LIMIT * min((float(each) for each in (soft, hard) if each), default=math.inf)
    seconds = min(RUN_SECONDS, limit / 2)
    return seconds, limit - seconds


connect()
remember_app()
