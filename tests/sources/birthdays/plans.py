from __future__ import annotations

from typing import Any

from birthdays.models import Person

import duebox
from duebox.when import anniversary


class Birthdays(duebox.Plan):
    model = Person
    event = "person.birthday_reached"

    def rule(self, person: Any) -> Any:
        return anniversary(person.born_on, at="09:00", leap="backward") if person.born_on else None

    def zone(self, person: Any) -> str:
        return person.zone

    def data(self, person: Any) -> dict[str, str]:
        return {"name": person.name}
