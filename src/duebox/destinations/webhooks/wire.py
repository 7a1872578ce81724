"""One request, one answer: over a connection that is kept, or a new one to an address that was looked at."""

from __future__ import annotations

import socket
import ssl
import time
from http.client import HTTPException

from duebox.destinations.webhooks.answers import Answer, Incoming, left, read, send
from duebox.destinations.webhooks.connecting import connected
from duebox.destinations.webhooks.guard import Guard, Route
from duebox.destinations.webhooks.kept import Kept, Line
from duebox.destinations.webhooks.patience import within
from duebox.destinations.webhooks.urls import Target
from duebox.exceptions import Undelivered


class Wire:
    """Sends nothing twice but over a kept connection that turned out to be dead, follows no redirect, and unpacks
    nothing. Shared by threads."""

    def __init__(self, guard: Guard, context: ssl.SSLContext, timeout: float) -> None:
        self._guard, self._context, self._timeout = guard, context, timeout
        self._kept = Kept()

    def exchange(self, target: Target, request: bytes) -> Answer:
        """The answer, or Undelivered; Blocked where the name of the host leads to an address that is not allowed."""
        try:
            return self._exchange(target, request, time.monotonic() + self._timeout)
        except (OSError, HTTPException) as error:
            raise Undelivered(_told(error, target.host, self._timeout)) from error

    def close(self) -> None:
        self._kept.close()

    def _exchange(self, target: Target, request: bytes, deadline: float) -> Answer:
        place = target[:3]
        kept = self._kept.take(place)
        if kept is not None:
            answer = self._tried(kept, target, request, deadline)
            if answer is not None:
                return answer
        addresses = within(left(deadline), lambda: self._guard.resolve(target.host, target.port))
        sock = connected(Route(target, addresses), self._context, deadline)
        return self._asked(Line(sock, time.monotonic()), target, request, deadline)

    def _tried(self, line: Line, target: Target, request: bytes, deadline: float) -> Answer | None:
        """None when the other side had closed the connection before it saw the request."""
        incoming = Incoming(line.sock, deadline)
        try:
            return self._asked(line, target, request, deadline, incoming)
        except TimeoutError:
            raise
        except OSError:  # RemoteDisconnected is one of them
            if incoming.count:
                raise
            return None

    def _asked(
        self, line: Line, target: Target, request: bytes, deadline: float, incoming: Incoming | None = None
    ) -> Answer:
        reusable = False
        try:
            send(line.sock, request, deadline)
            answer, reusable = read(incoming or Incoming(line.sock, deadline))
        finally:
            if reusable:
                self._kept.put(target[:3], line)
            else:
                line.sock.close()
        return answer


def _told(error: Exception, host: str, timeout: float) -> str:
    """What happened, without anything that the other side has said."""
    match error:
        case TimeoutError():
            return f"{host} did not answer within {timeout:g} s."
        case socket.gaierror():
            return f"{host} cannot be resolved ({error.strerror})."
        case ssl.SSLCertVerificationError():
            return f"The certificate of {host} is not accepted ({error.verify_message})."
        case ssl.SSLError():
            return f"{host} cannot be talked to over TLS ({error.reason or type(error).__name__})."
        case ConnectionResetError() | BrokenPipeError():
            return f"{host} closed the connection without an answer."
        case OSError():
            return f"{host} cannot be reached ({error.strerror or error})."
    return f"{host} did not answer in HTTP ({type(error).__name__})."
