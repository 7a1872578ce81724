"""Statements that visitors may run against the rows, as a colleague would in `psql`: no `save()`, no signal.

What the page shows is the text that is run. Values are those of rows that were found, quoted by psycopg.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from examples.clinic.models import Appointment, Patient

_APPOINTMENT, _PATIENT = (sql.SQL(model._meta.db_table) for model in (Appointment, Patient))
_MOVE = sql.SQL("UPDATE {table} SET starts_at = starts_at + interval '2 hours' WHERE reference = {reference}")
_STATUS = sql.SQL("UPDATE {table} SET status = {status} WHERE reference = {reference}")
_ZONE = sql.SQL("UPDATE {table} SET zone = {zone} WHERE id = {id}")
_ELSEWHERE = ("Asia/Tokyo", "America/Los_Angeles")


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    title: str
    text: str


def statements(appointment: Appointment) -> dict[str, Statement]:
    """Those that make sense for it as it is, by name."""
    patient, is_booked = appointment.patient, appointment.status == Appointment.Status.BOOKED
    zone = next(each for each in _ELSEWHERE if each != patient.zone)
    status = Appointment.Status.CANCELLED if is_booked else Appointment.Status.BOOKED
    of_row = {"table": _APPOINTMENT, "reference": sql.Literal(appointment.reference)}
    found = {
        "move": ("Two hours later", _MOVE.format(**of_row)),
        "zone": (
            f"{patient.name} travels",
            _ZONE.format(table=_PATIENT, zone=sql.Literal(zone), id=sql.Literal(patient.pk)),
        ),
        "status": (
            "Cancel it" if is_booked else "Book it again",
            _STATUS.format(**of_row, status=sql.Literal(str(status))),
        ),
    }
    return {name: Statement(name, title, text.as_string(None)) for name, (title, text) in found.items()}
