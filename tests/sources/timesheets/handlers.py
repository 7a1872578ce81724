from __future__ import annotations

from timesheets.models import Result

import duebox


@duebox.on("time_entry.submitted", name="states", ordered=True, retry=duebox.Retry(limit=9, first=0.05, factor=1))
def states(event: duebox.Fact) -> None:
    if event.data["number"] % 5 == 4 and event.attempt == 1:
        raise ConnectionError("every fifth fails at first")
    Result.objects.create(what=f"states of {event.about[1]}", text=str(event.data["number"]))


@duebox.on("project.assigned", name="assign")
def assign(event: duebox.Fact) -> None:
    Result.objects.create(what="assigned", text=f"v{event.version} {event.data['project']['id']}")


@duebox.on("member.invited", name="invite")
def invite(event: duebox.Fact) -> None:
    Result.objects.create(what="invited", text=event.correlation_id)
