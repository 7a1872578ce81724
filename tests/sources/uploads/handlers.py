from __future__ import annotations

from uploads.events import FileIndexed
from uploads.models import Result

import duebox


@duebox.on("file.stored")
def index(event: duebox.Fact) -> None:
    duebox.emit(FileIndexed(name=event.data["name"]), about=event.about)


@duebox.on("file.indexed")
def record(event: duebox.Fact) -> None:
    Result.objects.create(what="indexed", text=event.data["name"])


@duebox.on("file.deleted", name="delete")
def delete(event: duebox.Fact) -> None:
    Result.objects.create(what="deleted", text=event.data["name"])
