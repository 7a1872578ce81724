"""The wire that misbehaves at one event must not stop for another reason."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.destinations.interrupted import KAFKA, Interrupted


def framed(text):
    return len(text).to_bytes(4, "big") + text.encode()


@pytest.fixture
def ends():
    client, here = socket.socketpair()
    there, server = socket.socketpair()
    for each in (client, server, there):
        each.settimeout(2)
    yield client, here, there, server
    for each in (client, here, there, server):
        each.close()


@pytest.fixture
def wire():
    # It needs a port to exist; its steps are taken by hand, so nobody comes there.
    with Interrupted(1, KAFKA) as made:
        yield made


def test_an_answer_and_the_event_that_come_at_once_are_both_passed_on(ends, wire):
    client, here, there, server = ends
    with wire.at({"bad"}, lambda: None, lambda: None):
        client.sendall(framed("good"))
        wire._step(here, there)
        assert server.recv(64) == framed("good")
        server.sendall(framed("taken"))
        client.sendall(framed("bad"))
        answering = threading.Thread(target=lambda: (server.recv(64), server.sendall(framed("no"))))
        answering.start()
        wire._step(here, there)
        answering.join()
    assert client.recv(64) == framed("taken") + framed("no")


def test_a_server_that_goes_before_it_answers_ends_the_connection(ends, wire):
    client, here, there, server = ends
    with wire.at({"bad"}, lambda: None, lambda: None):
        client.sendall(framed("bad"))
        server.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError):
            wire._pass_on(here.recv(64), here, there)
