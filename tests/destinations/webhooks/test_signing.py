"""What is sent is signed."""

from __future__ import annotations

import base64

import pytest

from duebox.destinations.webhooks.signatures import new_secret, sign, signed_headers
from duebox.exceptions import InvalidSecret
from tests.destinations.webhooks.keys import new_pair

# Fixed, since parallel processes must find the same names of tests.
OLD, NEW = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


def test_a_webhook_has_three_headers():
    headers = signed_headers("msg_1", 1794736800, b"{}", [NEW])
    assert headers == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1794736800",
        "webhook-signature": sign("msg_1", 1794736800, b"{}", [NEW]),
    }


def test_while_a_secret_is_replaced_both_sign_in_the_order_given():
    both = sign("msg_1", 1, b"{}", [NEW, OLD])
    assert both == f"{sign('msg_1', 1, b'{}', [NEW])} {sign('msg_1', 1, b'{}', [OLD])}"


def test_three_secrets_are_one_too_many():
    with pytest.raises(InvalidSecret, match="At most 2 secrets sign, these are 3"):
        sign("msg_1", 1, b"{}", [NEW, OLD, new_secret()])


def test_a_secret_and_a_key_can_sign_together():
    private, _ = new_pair()
    first, second = sign("msg_1", 1, b"{}", [NEW, private]).split(" ")
    assert first.startswith("v1,")
    assert second.startswith("v1a,")


def test_every_part_is_signed():
    signatures = {
        sign(id, timestamp, body, [secret])
        for id in ("a", "b")
        for timestamp in (1, 2)
        for body in (b"{}", b"{ }", b"")
        for secret in (OLD, NEW)
    }
    assert len(signatures) == 24


@pytest.mark.parametrize("id", ["a.1", ".", "", "a b", "a\n", "é", "a" * 256, None, 1])
def test_an_id_is_visible_ascii_without_a_dot(id):
    with pytest.raises(ValueError, match="cannot be the id of a webhook"):
        sign(id, 1, b"", [NEW])


@pytest.mark.parametrize("timestamp", [-1, 1.5, 1.0, "1", True, None])
def test_a_timestamp_is_whole_seconds(timestamp):
    with pytest.raises(ValueError, match="is not a timestamp"):
        sign("a", timestamp, b"", [NEW])


@pytest.mark.parametrize("body", ["{}", {}, None])
def test_a_body_is_the_bytes_that_are_sent(body):
    with pytest.raises(TypeError, match="give the bytes that are sent"):
        sign("a", 1, body, [NEW])
