"""The other side of the webhooks: a partner's program, with a secret, and without Django's settings and a database.

It verifies each request and stores it as a file, also those that it refuses; the page "Outgoing" shows them.
`make demo` starts it. By hand, with the secret of the endpoint in `FOLDER/secret`:

    python -m examples.clinic.receiver --port 8002 FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from duebox.destinations.webhooks import verify
from duebox.exceptions import InvalidSignature

SECRET = "secret"
LARGEST = 1024 * 1024


class Received:
    """The requests in a folder, each a file; the names have the order in which they came."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, number: int, request: dict[str, Any]) -> None:
        # Readers see the whole file or none.
        draft = self.folder / f"{number:06}.draft"
        draft.write_text(json.dumps(request))
        draft.replace(draft.with_suffix(".json"))

    def latest(self, limit: int) -> list[dict[str, Any]]:
        """The newest first."""
        paths = sorted(self.folder.glob("*.json"), reverse=True)[:limit]
        return [json.loads(path.read_text()) for path in paths]

    @property
    def secret(self) -> str:
        return (self.folder / SECRET).read_text()

    def keep_secret(self, secret: str) -> None:
        path = self.folder / SECRET
        path.touch(mode=0o600)
        path.write_text(secret)


class Desk:
    """Decides about each request: which answer it gets, and why."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._number = 0

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        with self._lock:
            status, note = self._judged(headers, body)
            self._number += 1
            request = {
                "at": datetime.now(UTC).isoformat(),
                "status": status,
                "note": note,
                "headers": headers,
                "body": body.decode(errors="replace"),
            }
            self._received.add(self._number, request)
        return status, note

    def _judged(self, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        try:
            found = verify(headers, body, [self._received.secret])
        except InvalidSignature as error:
            return 401, str(error)
        if found.id in self._ids:
            return 200, "received before"  # the sender did not hear the first answer
        self._ids.add(found.id)
        return 200, "thanks"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, desk: Desk, *args: Any) -> None:
        self._desk = desk
        super().__init__(*args)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST:
            self.close_connection = True
            self._answer(413, "too large")
        else:
            self._answer(*self._desk.take(dict(self.headers.items()), self.rfile.read(length)))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.clinic.receiver", description="Receives webhooks.")
    parser.add_argument("--port", type=int, default=8002, help="of 127.0.0.1 (8002)")
    parser.add_argument("folder", type=Path, help="where `secret` is, and where requests are stored")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    desk = Desk(Received(options.folder))
    with ThreadingHTTPServer(("127.0.0.1", options.port), partial(Handler, desk)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
