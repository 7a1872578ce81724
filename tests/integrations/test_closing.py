"""An engine that ends inside another program closes the connections of destinations, unless another one has them."""

from __future__ import annotations

import threading

import pytest

import duebox
from duebox.destinations.registry import subscriptions
from duebox.integrations.apscheduler import Rounds
from duebox.integrations.background_worker import running
from tests.app.outside import Post
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


class Line(Post):
    """Knows when it was closed, and takes nothing afterwards."""

    lines: list[Line] = []

    def __init__(self, alias, **options):
        super().__init__(alias, **options)
        self.closed = 0
        Line.lines.append(self)

    def deliver(self, batch):
        assert not self.closed
        return super().deliver(batch)

    def close(self):
        self.closed += 1


@pytest.fixture
def lines(settings):
    entry = {"BACKEND": "tests.integrations.test_closing.Line"}
    routes = [{"match": "order.*", "to": "post"}]
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"post": entry}, "ROUTES": routes, "SHUTDOWN_SECONDS": 5}
    Line.lines.clear()
    yield Line.lines
    Line.lines.clear()
    Post.boxes.clear()


def got(lines):
    return sum(len(each.facts) for each in lines)


def test_after_the_block_of_a_worker_its_destinations_are_closed(lines):
    for number in (1, 2):
        with running(threads=1):
            duebox.emit("order.paid")
            eventually(lambda number=number: got(lines) == number)
        assert [each.closed for each in lines] == [1] * number
    assert subscriptions()["post"].made == {}


def test_a_worker_that_ends_closes_nothing_under_another_one(lines):
    with running(threads=1):
        with running(threads=1):
            duebox.emit("order.paid")
            eventually(lambda: got(lines) == 1)
        assert [each.closed for each in lines] == [0]
        duebox.emit("order.paid")
        eventually(lambda: got(lines) == 2)
    assert [each.closed for each in lines] == [1]


def test_rounds_keep_their_connections_from_one_to_the_next_until_they_are_stopped(lines):
    deliver = Rounds(threads=1)
    for _ in range(2):
        duebox.emit("order.paid")
        deliver()
    assert [each.closed for each in lines] == [0]
    deliver.stop()
    assert [(len(each.facts), each.closed) for each in lines] == [(2, 1)]


def test_a_round_that_is_under_way_when_it_is_stopped_closes_at_its_end(lines, settings):
    began, go_on = threading.Event(), threading.Event()

    def answer(fact):
        began.set()
        go_on.wait(10)

    settings.DUEBOX["DESTINATIONS"]["post"]["OPTIONS"] = {"answers": answer}
    duebox.emit("order.paid")
    deliver = Rounds(threads=1)
    thread = threading.Thread(target=deliver)
    thread.start()
    assert began.wait(10)
    deliver.stop()
    assert [each.closed for each in lines] == [0]
    go_on.set()
    thread.join(10)
    assert [(len(each.facts), each.closed) for each in lines] == [(1, 1)]


def test_rounds_that_are_stopped_close_nothing_under_a_worker(lines):
    deliver = Rounds(threads=1)
    duebox.emit("order.paid")
    deliver()
    with running(threads=1):
        deliver.stop()
        assert [each.closed for each in lines] == [0]
    assert [each.closed for each in lines] == [1]


def test_a_connection_that_does_not_close_keeps_no_other_one_open(lines, settings, caplog):
    settings.DUEBOX["DESTINATIONS"]["bad"] = {"BACKEND": "tests.integrations.test_closing.Stuck"}
    settings.DUEBOX = {
        **settings.DUEBOX, "ROUTES": [{"match": "order.*", "to": ["bad", "post"]}],
        "DESTINATIONS": {name: settings.DUEBOX["DESTINATIONS"][name] for name in ("bad", "post")},
    }  # fmt: skip
    with running(threads=1):
        duebox.emit("order.paid")
        eventually(lambda: got(lines) == 2)
    assert [each.closed for each in lines] == [1, 1]
    assert "destination could not be closed: name=bad" in caplog.text


class Stuck(Line):
    def close(self):
        super().close()
        raise OSError("broken")
