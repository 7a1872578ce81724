from __future__ import annotations

from birthdays.models import Greeting, Person

import duebox


@duebox.on("person.birthday_reached")
def greet(event: duebox.Fact) -> None:
    year = int(event.metadata["schedule"]["local"][:4])
    Greeting.objects.create(name=event.data["name"], year=year)


@duebox.on("call.due", name="call", retry=duebox.Retry(limit=2, first=0.3, jitter=0))
def call(event: duebox.Fact) -> None:
    if event.attempt <= event.data["failures"] and not Person.objects.filter(name="picks up again").exists():
        raise TimeoutError("nobody picks up")
    Greeting.objects.create(name=event.data["name"], year=0)
