"""Who comes to the clinic, and what they do there: one patient after another, by real HTTP requests."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import uuid4

from examples.clinic.demo.client import Client

NAMES = ("Ada", "Bram", "Chiara", "Dmitri", "Elif", "Farid", "Grace", "Hana", "Imani", "Jonas", "Keiko", "Luís")
DOCTORS = {"Dr. Okafor": "Africa/Lagos", "Dr. Lindqvist": "Europe/Berlin", "Dr. Tanaka": "Asia/Tokyo"}
ZONES = ("Europe/Zurich", "Asia/Kolkata", "America/New_York", "Australia/Sydney")
PAUSE_SECONDS = 0.3
INVOICE_SECONDS = 5.0

# A reminder goes out a day before the appointment: these get theirs in a moment.
SOON_REMINDED = timedelta(hours=24, seconds=2)
SHORT_NOTICE = timedelta(hours=3)

Step = Iterator[None]


class Visitors:
    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say

    def come(self, gone: Event) -> None:
        """Patients come until `gone`; every step is a request or two."""
        for name, zone in DOCTORS.items():
            self._client.post("/doctors/", name=name, zone=zone)
        for number in itertools.count(1):
            for _ in self._visit(number):
                if gone.wait(PAUSE_SECONDS * random.uniform(0.5, 1.5)):
                    return

    def _visit(self, number: int) -> Step:
        patient = self._invite(number)
        yield
        self._client.post(f"/patients/{patient}/register/")
        yield
        attended = self._book(patient, SHORT_NOTICE)
        yield
        self._client.post(f"/appointments/{attended}/attend/")
        yield
        self._pay(attended)
        yield
        moved = self._double_click(patient)
        yield
        self._ask_for_a_taken_slot(patient)
        yield
        self._client.post(f"/appointments/{moved}/reschedule/", starts_at=_from_now(SOON_REMINDED))
        yield
        cancelled = self._book(patient, SOON_REMINDED if number % 2 else SHORT_NOTICE)
        yield
        self._client.post(f"/appointments/{cancelled}/cancel/")
        yield

    def _invite(self, number: int) -> int:
        name = random.choice(NAMES)
        # Every other phone number is one that the SMS gateway is busy for, every third insurer has no contract yet.
        form = {
            "name": name,
            "email": f"{name.lower()}{number}@example.org",
            "phone": f"+41 79 555 {number % 100:02}{7 if number % 2 else 4}",
            "insurer_code": f"KPT-{number}" if number % 3 == 1 else "",
            "zone": ZONES[number % len(ZONES)],
        }
        return int(self._client.post("/patients/", **form).data["patient"])

    def _book(self, patient: int, ahead: timedelta) -> str:
        answer = self._client.post("/appointments/", **_wish(patient, _from_now(ahead)))
        return str(answer.data["appointments"][0])

    def _double_click(self, patient: int) -> str:
        wish, key = _wish(patient, _from_now(SOON_REMINDED)), uuid4().hex
        with ThreadPoolExecutor(2) as fingers:
            clicks = [fingers.submit(self._client.post, "/appointments/", key=key, **wish) for _ in range(2)]
        first, second = (click.result().data["appointments"][0] for click in clicks)
        self._say(f"double click on 'book': answered {first} and {second}")
        return str(first)

    def _ask_for_a_taken_slot(self, patient: int) -> None:
        """A series of three, of which the last two collide: the first one's row and event must vanish with it."""
        free, taken = _from_now(SHORT_NOTICE), _from_now(SOON_REMINDED)
        answer = self._client.post("/appointments/", **_wish(patient, free, taken, taken))
        self._say(f"series of 3 refused, its 3 events rolled back: {answer.data['refused']}")

    def _pay(self, reference: str) -> None:
        """The invoice is written by a handler, so it may take a moment to appear."""
        deadline = time.monotonic() + INVOICE_SECONDS
        while not (invoices := self._client.get(f"/appointments/{reference}/").data["invoices"]):
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        self._client.post(f"/invoices/{invoices[0]['id']}/pay/")


def _wish(patient: int, *starts_at: str) -> dict[str, Any]:
    return {"patient": patient, "doctor": random.choice(list(DOCTORS)), "starts_at": starts_at}


def _from_now(ahead: timedelta) -> str:
    return (datetime.now(UTC) + ahead).isoformat()
