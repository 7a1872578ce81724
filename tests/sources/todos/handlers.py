from __future__ import annotations

import time

from todos.models import Result

import duebox

BROKEN: set[str] = set()


@duebox.on("task.due_soon", name="remind")
def remind(event: duebox.Fact) -> None:
    if event.data["title"] in BROKEN:
        raise duebox.Permanent("the mail server does not know the address")
    Result.objects.create(what="reminded", text=event.data["title"])


@duebox.on("task.nap_due", name="nap", atomic=False)
def nap(event: duebox.Fact) -> None:
    time.sleep(event.data["seconds"])
    Result.objects.create(what="nap", text=str(event.data["seconds"]))
