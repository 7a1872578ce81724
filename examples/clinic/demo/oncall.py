"""Whoever is on call: looks at the dead letters, repairs the cause, and retries them with the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Event
from typing import Any

from examples.clinic.demo.client import Client
from examples.clinic.demo.process import manage


class OnCall:
    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        self._called = Event()
        self._off = False

    def call(self) -> None:
        self._called.set()

    def go_home(self) -> None:
        self._off = True
        self._called.set()

    def watch(self) -> None:
        while True:
            self._called.wait()
            if self._off:
                return
            self._called.clear()
            for line in manage("duebox", "deliveries", "list", "--state", "dead", "--json").splitlines():
                self._repair(json.loads(line)["id"])

    def _repair(self, delivery: int) -> None:
        letter: dict[str, Any] = json.loads(manage("duebox", "deliveries", "show", str(delivery), "--json"))
        insurer = letter["data"].get("insurer")
        if not insurer:
            return
        self._say(f"on call: {insurer} signs a contract")
        self._client.post("/insurers/", code=insurer)
        self._say(f"on call: manage.py duebox deliveries retry {delivery}")
        manage("duebox", "deliveries", "retry", str(delivery))
