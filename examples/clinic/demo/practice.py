"""The life of an organization, from its first day to its last, by real HTTP requests: the whole catalogue, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

from examples.clinic.demo.client import Client

PAUSE_SECONDS = 0.3
NAME = "Seeblick Practice"
FOUNDER = {"name": "Nora", "email": "nora@seeblick.example", "phone": "+41 79 555 2001"}
AMARA = {"name": "Amara", "email": "amara@seeblick.example", "phone": "+41 79 555 2002", "role": "doctor"}
BO = {"name": "Bo", "email": "bo@seeblick.example", "phone": "+41 79 555 2003", "role": "assistant"}


class Practice:
    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        self._by = ""

    def live(self, gone: Event) -> None:
        """Step by step to its end; in a hurry once everybody has to go."""
        for _ in self._life():
            gone.wait(PAUSE_SECONDS)

    def _life(self) -> Iterator[None]:
        founded = self._post("/organizations/", organization=NAME, zone="Europe/Zurich", **FOUNDER)
        home, self._by = f"/organizations/{founded['organization']}/", str(founded["user"])
        yield
        self._post(f"{home}subscription/", plan="team")
        yield
        yield from self._hire_and_let_go(home)
        self._post(f"/users/{self._by}/phone/", phone="+41 79 555 2009")
        self._say(f"the audit log of that number: {self._last_change()}; it has no public event")
        yield
        self._post(f"{home}billing/", email="accounts@seeblick.example", address="Seestrasse 4, Zürich")
        yield
        self._post(f"{home}subscription/update/", plan="clinic")
        yield
        self._say("the old billing program still writes subscription.updated v1, in cents; handlers see v2")
        self._post(f"{home}subscription/update/v1/", plan="team")
        yield
        self._post(f"{home}subscription/cancel/")

    def _hire_and_let_go(self, home: str) -> Iterator[None]:
        amara = self._post(f"{home}members/", **AMARA)["member"]
        self._say("member.invited holds an email, public.member.invited only the role")
        yield
        self._post(f"/members/{amara}/join/")
        yield
        bo = self._post(f"{home}members/", **BO)["member"]
        yield
        self._post(f"/members/{amara}/role/", role="owner")
        yield
        self._post(f"/members/{bo}/remove/", reason="changed his mind")
        yield

    def _last_change(self) -> str:
        entry = self._client.get(f"/users/{self._by}/history/").data["history"][-1]
        return f"{' → '.join(entry['changes']['phone'])} by user {entry['actor']['id']}"

    def _post(self, path: str, **form: Any) -> dict[str, Any]:
        return self._client.post(path, by=self._by, **form).data
