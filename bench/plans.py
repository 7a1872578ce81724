"""The plan under measurement: a greeting at nine in the morning of each person's own zone."""

from __future__ import annotations

import duebox
from bench.models import Person
from duebox import when


class Birthdays(duebox.Plan):
    model = Person
    event = "bench.birthday"
    name = "birthdays"

    def rule(self, row: Person) -> when.Rule:
        return when.anniversary(row.born_on, at="09:00")

    def zone(self, row: Person) -> str:
        return row.zone
