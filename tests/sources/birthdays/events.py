from __future__ import annotations

import duebox


@duebox.event("person.birthday_reached")
class BirthdayReached:
    name: str


@duebox.event("call.due")
class CallDue:
    name: str
    failures: int = 0
