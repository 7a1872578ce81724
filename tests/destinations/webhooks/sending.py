"""A wire to one URL, and servers that answer from a script."""

from __future__ import annotations

import time

from duebox.destinations.webhooks.endpoint_delivery import request_template
from duebox.destinations.webhooks.http import HttpClient, made_context
from duebox.destinations.webhooks.signatures import signing_keys
from duebox.destinations.webhooks.url_guard import Guard
from tests.destinations.conformance import a_fact
from tests.destinations.stages.webhooks import SECRET
from tests.destinations.webhooks.receiver import read_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Sender:
    """A wire and one URL."""

    def __init__(self, url, *ports, timeout=2.0, **options):
        self.guard = Guard(**{"http": True, "ports": ports, "allow_private": ["127.0.0.1"], **options})
        self.wire = HttpClient(self.guard, made_context(), timeout)
        self.target = self.guard.read(url)

    def send(self):
        paper = request_template(self.target, signing_keys([SECRET]), {})
        return self.wire.exchange(self.target, paper.request(a_fact().row, int(time.time())))


def answering(*answers):
    """Each request of a connection gets the next answer; then it is closed."""

    def play(sock):
        for answer in answers:
            if not read_request(sock):
                return
            sock.sendall(answer)

    return play
