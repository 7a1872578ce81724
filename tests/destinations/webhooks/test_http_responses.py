"""Answers over real sockets: slow ones, endless ones, ones that are none."""

from __future__ import annotations

import time

import pytest

from duebox.destinations.webhooks.http import SHOWN_BYTES
from duebox.exceptions import Undelivered
from tests.destinations.webhooks.receiver import read_request
from tests.destinations.webhooks.sending import OK, answering


@pytest.mark.parametrize("part", ["head", "status line"])
def test_a_server_that_drips_its_head_is_left_at_the_deadline(scripted, sender, part):
    def play(sock):
        read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\n" if part == "head" else b"")
        for letter in b"X" * 600:
            sock.sendall(bytes([letter]))
            time.sleep(0.05)

    server = scripted(play)
    started = time.monotonic()
    with pytest.raises(Undelivered, match=r"did not answer within 0\.5 s"):
        sender(server.url, server.port, timeout=0.5).send()
    assert 0.4 < time.monotonic() - started < 15  # all of it takes half a minute


def test_a_body_that_drips_ends_at_the_deadline_and_the_status_counts(scripted, sender):
    def play(sock):
        read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(600):
            sock.sendall(b"x")
            time.sleep(0.05)

    server = scripted(play)
    started = time.monotonic()
    answer = sender(server.url, server.port, timeout=0.5).send()
    assert time.monotonic() - started < 15
    assert answer.status == 200
    assert set(answer.text) == {"x"}


def test_a_server_that_takes_the_request_slowly_is_left_at_the_deadline(scripted, sender):
    server = scripted(lambda sock: time.sleep(5))
    one = sender(server.url, server.port, timeout=0.5)
    started = time.monotonic()
    with pytest.raises(Undelivered, match="did not answer within"):
        one.wire.exchange(one.target, b"x" * 20_000_000)
    assert time.monotonic() - started < 4


def test_of_a_huge_answer_only_the_beginning_is_read(scripted, sender):
    sent = []

    def play(sock):
        read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(15_000):
            sent.append(sock.send(b"x" * 65536))

    server = scripted(play)
    answer = sender(server.url, server.port).send()
    assert answer == (200, "x" * SHOWN_BYTES, None)
    assert sum(sent) < 100_000_000


def test_an_answer_without_an_end_is_cut(scripted, sender):
    def play(sock):
        read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            sock.sendall(b"1000\r\n" + b"y" * 4096 + b"\r\n")

    server = scripted(play)
    one = sender(server.url, server.port)
    assert one.send() == (200, "y" * SHOWN_BYTES, None)
    one.send()
    assert server.connections == 2


def test_chunks_are_put_together_and_the_connection_stays(scripted, sender):
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"
    server = scripted(answering(chunked, OK))
    one = sender(server.url, server.port)
    assert one.send().text == "abcde"
    assert one.send().text == "ok"
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nold", 200),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk", 200),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 200),
        (b"HTTP/1.1 200\r\nContent-Length: +2\r\n\r\nok", 200),
        (b"HTTP/1.1 500 Oh\nContent-Length : 2\n\nno", 500),
    ],
)
def test_where_the_end_of_an_answer_is_not_certain_the_connection_ends_with_it(scripted, sender, answer, status):
    server = scripted(answering(answer))
    one = sender(server.url, server.port)
    assert one.send().status == status
    assert one.wire._pool.take(one.target[:3]) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    ],
)
def test_what_is_not_http_is_not_an_answer(scripted, sender, answer):
    server = scripted(answering(answer))
    with pytest.raises(Undelivered, match=r"127\.0\.0\.1 did not answer in HTTP") as told:
        sender(server.url, server.port).send()
    assert "SSH" not in str(told.value)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", 204),
        (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", 204),
        (b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 304),
        (b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", 204),
        (OK + OK, 200),
        (OK + b"\n", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + OK, 200),
        (b"HTTP/1.1 204 No\r\n\r\n" + OK, 204),
    ],
)
def test_where_more_came_than_the_answer_or_may_come_the_connection_is_closed(scripted, sender, answer, status):
    server = scripted(answering(answer, b""))  # which would leave it open
    one = sender(server.url, server.port)
    assert one.send().status == status
    assert not one.wire._pool._lines


@pytest.mark.parametrize("said", [b"", b"Content-Length: 0\r\n"])
def test_an_answer_without_a_body_leaves_the_connection_open(scripted, sender, said):
    server = scripted(answering(b"HTTP/1.1 204 No\r\n%b\r\n" % said, OK))
    one = sender(server.url, server.port)
    assert [one.send().status, one.send().status] == [204, 200]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: " + b"x" * 60_000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 60_000 + b"\r\ny\r\n"),
    ],
    ids=["trailers", "extensions"],
)
def test_what_surrounds_a_body_is_not_read_without_end(scripted, sender, begins, goes_on):
    sent = []

    def play(sock):
        read_request(sock)
        sock.sendall(begins)
        while True:
            sent.append(sock.send(goes_on))

    server = scripted(play)
    one = sender(server.url, server.port)
    assert one.send().status == 200
    assert one.wire._pool.take(one.target[:3]) is None
    assert sum(sent) < 20_000_000  # what the buffers of the machine hold


def test_a_head_is_not_read_without_end(scripted, sender):
    interim = b"HTTP/1.1 103 Early\r\n" + (b"X: " + b"y" * 16_000 + b"\r\n") * 90 + b"\r\n"
    server = scripted(answering(interim * 9 + OK))
    with pytest.raises(Undelivered, match="did not answer in HTTP"):
        sender(server.url, server.port).send()


def test_interim_answers_are_passed_over(scripted, sender):
    server = scripted(answering(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK))
    assert sender(server.url, server.port).send().status == 200


def test_a_packed_answer_is_not_unpacked(scripted, sender):
    server = scripted(
        answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
    )
    assert sender(server.url, server.port).send().text == "(4 bytes in an encoding that was not requested)"
