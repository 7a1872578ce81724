"""Requests over real sockets: kept connections, redirects, names that change."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from duebox.destinations.webhooks import http
from duebox.destinations.webhooks.endpoint_delivery import request_template
from duebox.destinations.webhooks.signatures import signing_keys
from duebox.exceptions import Blocked, Undelivered
from tests.destinations.conformance import a_fact
from tests.destinations.stages.webhooks import SECRET
from tests.destinations.webhooks.receiver import Reply, read_request
from tests.destinations.webhooks.sending import OK, answering


def test_a_connection_is_used_again(receiver, sender):
    one = sender(receiver.url, receiver.port)
    for _ in range(5):
        assert one.send().status == 200
    assert len({got.connection for got in receiver.got}) == 1


def test_one_that_the_other_side_closed_is_replaced(receiver, sender):
    one = sender(receiver.url, receiver.port)
    one.send()
    receiver.server.cut()
    assert one.send().status == 200
    assert len({got.connection for got in receiver.got}) == 2


def test_one_that_dies_while_it_is_asked_is_replaced_once(scripted, sender):
    def play(sock):
        read_request(sock)
        sock.sendall(OK)
        read_request(sock)  # takes the second request and hangs up

    server = scripted(play)
    one = sender(server.url, server.port)
    assert one.send().status == 200
    assert one.send().status == 200
    assert server.connections == 2


def test_one_that_has_begun_to_answer_is_not_asked_again(scripted, sender):
    server = scripted(answering(OK, b"HTTP/1.1 200 O"))
    one = sender(server.url, server.port)
    one.send()
    with pytest.raises(Undelivered):
        one.send()
    assert server.connections == 1


def test_a_new_connection_that_breaks_is_not_tried_again(scripted, sender):
    server = scripted(read_request)
    with pytest.raises(Undelivered, match="closed the connection without an answer"):
        sender(server.url, server.port).send()
    assert server.connections == 1


def test_an_old_connection_is_not_used_any_more(receiver, sender, monkeypatch):
    one = sender(receiver.url, receiver.port)
    one.send()
    monkeypatch.setattr(http, "OLDEST_SECONDS", 0.0)
    one.send()
    assert len({got.connection for got in receiver.got}) == 2


def test_old_connections_are_closed_although_nobody_asks_for_them(monkeypatch):
    monkeypatch.setattr(http, "SWEEP_SECONDS", 0.0)
    lines = http.ConnectionPool()
    ours, theirs = socket.socketpair()
    lines.put(("http", "old.example", 80), http.Line(ours, time.monotonic() - http.OLDEST_SECONDS))
    others, beyond = socket.socketpair()
    lines.put(("http", "new.example", 80), http.Line(others, time.monotonic()))
    assert theirs.recv(1) == b""
    assert lines.take(("http", "old.example", 80)) is None
    lines.close()
    for each in (theirs, beyond):
        each.close()


def test_threads_share_connections_without_sharing_answers(receiver, sender):
    receiver.reply = lambda got: Reply(body=got.id.encode())
    one = sender(receiver.url, receiver.port)
    paper = request_template(one.target, signing_keys([SECRET]), {})
    wrong = []

    def work():
        for _ in range(50):
            row = a_fact().row
            if one.wire.exchange(one.target, paper.request(row, 1)).text != row.id:
                wrong.append(row.id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert len(receiver.got) == 400


def test_a_redirect_to_loopback_is_not_followed(receiver, sender, scripted):
    server = scripted(
        answering(b"HTTP/1.1 307 Temporary\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % receiver.url.encode())
    )
    assert sender(server.url, server.port, receiver.port).send().status == 307
    assert receiver.got == []


def test_variables_for_proxies_change_nothing(receiver, sender, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert sender(receiver.url, receiver.port).send().status == 200


def test_nobody_there_is_said_with_the_host_only(sender):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Undelivered, match=r"^127\.0\.0\.1 cannot be reached \(Connection refused\)\.$"):
        sender(f"http://127.0.0.1:{port}/secret-path", port).send()


class Names:
    """A resolver whose answers are played one after the other; the last one stays."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    def __call__(self, host, port, **kwargs):
        self.asked += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


def test_a_name_that_moves_into_the_private_network_is_blocked(receiver, sender):
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    one = sender(f"http://rebind.example:{receiver.port}/", receiver.port, resolver=names, allow_private=[])
    one.guard.resolve("rebind.example", receiver.port)  # as when it was saved
    with pytest.raises(Blocked, match="loopback"):
        one.send()
    assert receiver.got == []


def test_one_bad_address_blocks_the_good_ones(receiver, sender):
    names = Names(["93.184.216.34", "127.0.0.1"])
    with pytest.raises(Blocked):
        sender(f"http://mixed.example:{receiver.port}/", receiver.port, resolver=names, allow_private=[]).send()
    assert receiver.got == []


def test_a_name_is_asked_for_once_and_that_address_is_connected_to(receiver, sender):
    names = Names(["127.0.0.1"], ["127.0.0.99"])
    one = sender(f"http://hooks.test:{receiver.port}/x", receiver.port, resolver=names, allow_private=["hooks.test"])
    assert one.send().status == 200
    assert one.send().status == 200  # over the same connection, which nobody is asked for
    assert names.asked == 1
    assert [got.headers["host"] for got in receiver.got] == [f"hooks.test:{receiver.port}"] * 2


def test_the_next_address_is_tried_where_the_first_is_dead(receiver, sender):
    names = Names(["127.0.0.9", "127.0.0.1"])  # nobody listens on the first
    one = sender(f"http://hooks.test:{receiver.port}/", receiver.port, resolver=names, allow_private=["hooks.test"])
    assert one.send().status == 200


def test_a_name_that_nobody_knows_may_be_known_later(sender):
    names = Names(socket.gaierror(-2, "Name or service not known"))
    with pytest.raises(Undelivered, match=r"gone\.example cannot be resolved"):
        sender("http://gone.example/", resolver=names).send()


def test_a_resolver_that_hangs_is_left_at_the_deadline(sender):
    free = threading.Event()
    one = sender("http://slow.example/", timeout=0.3, resolver=lambda *args, **kwargs: free.wait(10) and [])
    started = time.monotonic()
    with pytest.raises(Undelivered, match=r"slow\.example did not answer within 0\.3 s"):
        one.send()
    assert time.monotonic() - started < 8
    free.set()
