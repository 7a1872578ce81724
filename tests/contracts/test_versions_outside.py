"""Versions on the way out: whoever is outside gets an event as it was stored, and its version with it."""

from __future__ import annotations

import pytest

import duebox
from duebox.models import Delivery, Event, WebhookEndpoint
from duebox.testing import drain
from duebox.worker.drain import drain as work
from tests.app.outside import Post
from tests.support import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def outside(settings):
    """A destination for orders, one with parts for letters, and webhooks."""
    settings.DUEBOX = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {
            "post": {"BACKEND": "tests.app.outside.Single"},
            "parts": {"BACKEND": "tests.app.outside.Parts"},
            "hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"},
        },
        "ROUTES": [{"match": "order.*", "to": "post"}, {"match": "letter.*", "to": "parts"}],
    }
    Post.boxes.clear()  # other tests leave theirs
    yield Post.boxes
    Post.boxes.clear()


def stored_before(declare, name, data, **options):
    """An event of version 1, and code that knows version 2 only, and how to get there."""
    fact = duebox.emit(name, data, **options)

    @declare(name, version=2, upcast=lambda data: {**data, "added": 1}, public={"letters"})
    class V2:
        letters: str
        added: int

    return fact


def got(boxes, name):
    return [(fact.version, fact.data) for fact in boxes[name].facts]


def test_a_destination_gets_what_was_stored_in_a_drain(declare, outside):
    stored_before(declare, "order.paid", {"letters": "ab"})
    drain()
    assert got(outside, "post") == [(1, {"letters": "ab"})]


@pytest.mark.django_db(transaction=True)
def test_a_destination_gets_what_was_stored_from_a_worker(declare, outside, hire):
    stored_before(declare, "order.paid", {"letters": "ab"})
    hire()
    eventually(lambda: "post" in outside and outside["post"].facts)
    assert got(outside, "post") == [(1, {"letters": "ab"})]


@pytest.mark.parametrize("version", [1, 9])
def test_what_goes_to_parts_need_not_be_in_a_version_that_is_known_here(declare, outside, version):
    duebox.emit("letter.sent", {"letters": "ab"}, version=version)

    @declare("letter.sent", version=3)
    class V3:
        letters: str

    drain()
    for part in ("parts/a", "parts/b"):
        assert got(outside, part) == [(version, {"letters": "ab"})]


def test_an_old_public_event_goes_to_endpoints_as_it_was_told_then(declare, outside):
    """Its data cannot be brought up to date: an upcast may need what is private. The message says its version."""

    @declare("note.sent", public={"letters"})
    class V1:
        letters: str

    duebox.emit(V1(letters="ab"), organization="7")
    duebox.contracts.event_types.forget("note.sent")
    endpoint = WebhookEndpoint.objects.create(
        organization="7", url="https://example.com/", types=["*"], secret="encrypted"
    )

    @declare("note.sent", version=2, upcast=lambda data: {**data, "added": 1}, public={"letters", "added"})
    class V2:
        letters: str
        added: int

    work(only=("fan-out:*",))
    told = Event.objects.get(type="public.note.sent")
    assert (told.version, told.data) == (1, {"letters": "ab"})
    [left] = Delivery.objects.all()
    assert (left.subscriber, left.event_id) == (f"to:hooks/{endpoint.pk}", told.id)
