"""Connections to addresses that the guard has looked at, with the name of the host kept for TLS."""

from __future__ import annotations

import socket
import ssl
import time
from typing import TYPE_CHECKING

from urllib3.connection import HTTPConnection, HTTPSConnection

from duebox.destinations.webhooks.guard import Pinned, Route

if TYPE_CHECKING:
    _Connection = HTTPConnection
else:
    _Connection = object

CONNECT_SECONDS = 5.0


def connected(route: Route, context: ssl.SSLContext, deadline: float) -> socket.socket:
    """A socket to one of the addresses of a route; behind https:// only to who has a certificate for the name."""
    target = route.target
    connection: _Pinned
    if target.scheme == "https":
        connection = _Secure(target.host, target.port, ssl_context=context)
    else:
        connection = _Plain(target.host, target.port)
    connection.addresses, connection.deadline = route.addresses, deadline
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise
    assert connection.sock is not None
    return connection.sock


class _Pinned(_Connection):
    """Asks nobody for an address, and no variable for a proxy."""

    addresses: tuple[Pinned, ...]
    deadline: float

    def _new_conn(self) -> socket.socket:
        failed: OSError = TimeoutError()
        for each in self.addresses:
            left = self.deadline - time.monotonic()
            if left <= 0:
                break
            try:
                return _reached(each, min(left, CONNECT_SECONDS), self.deadline)
            except OSError as error:
                failed = error
        raise failed


class _Plain(_Pinned, HTTPConnection):
    pass


class _Secure(_Pinned, HTTPSConnection):
    pass


def _reached(pinned: Pinned, seconds: float, deadline: float) -> socket.socket:
    sock = socket.socket(pinned.family, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.connect((pinned.address, pinned.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(max(0.001, deadline - time.monotonic()))
    except BaseException:
        sock.close()
        raise
    return sock


def made_context(ca_file: str = "") -> ssl.SSLContext:
    """Trusts who the system trusts, and the authorities of a file besides."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(ca_file)
    return context
