from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from examples.clinic.demo.process import Trouble


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    data: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status < 300


class Client:
    """Sends HTTP requests to the clinic and remembers which keys it accepted and which it refused."""

    def __init__(self, port: int) -> None:
        self.statuses: list[int] = []
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self._port = port

    def get(self, path: str) -> Answer:
        return self._send("GET", path, "", {})

    def post(self, path: str, *, key: str | None = None, **form: Any) -> Answer:
        key = key or uuid4().hex
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": key}
        answer = self._send("POST", path, urlencode(form, doseq=True), headers)
        self.statuses.append(answer.status)
        (self.accepted if answer.accepted else self.refused).add(key)
        return answer

    def _send(self, method: str, path: str, body: str, headers: dict[str, str]) -> Answer:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request(method, path, body, {"Accept": "application/json", **headers})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 500:
            raise Trouble(f"The web server answered {method} {path} with {response.status}; see web.log.")
        return Answer(response.status, json.loads(text))
