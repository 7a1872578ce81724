"""What was received is verified."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.destinations.webhooks.signatures import Received, signed_headers, verify
from duebox.exceptions import InvalidSecret, InvalidSignature
from tests.destinations.webhooks.keys import new_pair
from tests.support import examples

NOW, BODY = 1794736800, b'{"type":"order.paid"}'
# Fixed, since parallel processes must find the same names of tests.
OLD, NEW = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
HEADERS = signed_headers("msg_1", NOW, BODY, [NEW])
RIGHT = HEADERS["webhook-signature"]


def with_(**changes):
    return {**HEADERS, **{f"webhook-{name}": value for name, value in changes.items()}}


def test_it_tells_the_id_and_the_time_of_what_is_right():
    assert verify(HEADERS, BODY, [NEW], now=NOW) == Received("msg_1", NOW)


def test_it_takes_the_time_of_the_clock_by_itself():
    headers = signed_headers("msg_1", int(time.time()), BODY, [NEW])
    assert verify(headers, BODY, [NEW]).id == "msg_1"


def test_during_a_rotation_either_side_may_be_ahead():
    both = signed_headers("msg_1", NOW, BODY, [NEW, OLD])
    assert verify(both, BODY, [OLD], now=NOW)
    assert verify(both, BODY, [NEW], now=NOW)
    assert verify(HEADERS, BODY, [OLD, NEW], now=NOW)


@pytest.mark.parametrize("name", ["Webhook-Id", "WEBHOOK-ID", "webhook-id"])
def test_names_of_headers_are_taken_in_any_case(name):
    headers = [(name, "msg_1"), ("Webhook-Timestamp", str(NOW)), ("WEBHOOK-SIGNATURE", RIGHT), ("Host", "a")]
    assert verify(headers, BODY, [NEW], now=NOW)
    assert verify(dict(headers), BODY, [NEW], now=NOW)
    assert verify([(key.encode(), value.encode()) for key, value in headers], BODY, [NEW], now=NOW)


@pytest.mark.parametrize(
    "signature",
    [
        f"garbage {RIGHT}",
        f"v2,AAAA {RIGHT}",
        f"v1,*** {RIGHT}",
        f"v1 {RIGHT}",
        f", {RIGHT}",
        f"v1,é {RIGHT}",
        f"v1a,AAAA {RIGHT}",
        f"{RIGHT} garbage",
        f"  {RIGHT}  ",
    ],
)
def test_parts_that_it_does_not_understand_are_skipped(signature):
    assert verify(with_(signature=signature), BODY, [NEW], now=NOW)


@pytest.mark.parametrize("now", [NOW - 300, NOW + 300, NOW + 299.9])
def test_five_minutes_are_tolerated(now):
    assert verify(HEADERS, BODY, [NEW], now=now)


def test_the_tolerance_can_be_chosen():
    assert verify(HEADERS, BODY, [NEW], now=NOW + 900, tolerance=900)
    with pytest.raises(InvalidSignature, match="more than 10 seconds ago"):
        verify(HEADERS, BODY, [NEW], now=NOW + 11, tolerance=10)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "webhook-id is missing"),
        (with_(id=""), "webhook-id is missing"),
        (with_(id=None), "webhook-id is missing"),
        (with_(timestamp=""), "webhook-timestamp is missing"),
        ({name: HEADERS[name] for name in ("webhook-id", "webhook-timestamp")}, "webhook-signature is missing"),
        ({**HEADERS, "Webhook-Id": "msg_1"}, "webhook-id is repeated"),
        ([*HEADERS.items(), ("webhook-signature", "v1,AAAA")], "webhook-signature is repeated"),
        (with_(id="msg_2"), "no signature matches"),
        (with_(id="a.1"), "webhook-id is not visible ASCII without a dot"),
        (with_(id="msg_1\n"), "webhook-id is not visible ASCII without a dot"),
        (with_(timestamp=str(NOW + 1)), "no signature matches"),
        (with_(timestamp=str(NOW + 301)), "more than 300 seconds ahead"),
        (with_(timestamp=str(NOW - 301)), "more than 300 seconds ago"),
        (with_(timestamp=f"{NOW}.0"), "not whole seconds"),
        (with_(timestamp=f" {NOW}"), "not whole seconds"),
        (with_(timestamp=f"+{NOW}"), "not whole seconds"),
        (with_(timestamp=f"0{NOW}"), "not whole seconds"),
        (with_(timestamp=f"{NOW}\n"), "not whole seconds"),
        (with_(timestamp="-1"), "not whole seconds"),
        (with_(timestamp="1e9"), "not whole seconds"),
        (with_(timestamp="٣"), "not whole seconds"),
        (with_(timestamp="9" * 5000), "not whole seconds"),
        (with_(signature="v1,"), "no signature matches"),
        (with_(signature=RIGHT.removeprefix("v1,")), "no signature matches"),
        (with_(signature=RIGHT.replace("v1,", "v1a,")), "no signature matches"),
        (with_(signature=RIGHT.replace("v1,", "V1,")), "no signature matches"),
        (with_(signature=f"v1,{base64.b64encode(base64.b64decode(RIGHT[3:])[:16]).decode()}"), "no signature matches"),
        (with_(signature=" ".join(["v1,AAAA"] * 100 + [RIGHT])), "no signature matches"),
    ],
)  # fmt: skip
def test_what_is_not_right_is_refused_with_a_reason(headers, reason):
    with pytest.raises(InvalidSignature, match=reason) as refusal:
        verify(headers, BODY, [NEW], now=NOW)
    assert refusal.value.reason == str(refusal.value)


@pytest.mark.parametrize("body", [b"", BODY + b" ", BODY.replace(b":", b": ")])
def test_another_body_is_refused(body):
    with pytest.raises(InvalidSignature, match="no signature matches"):
        verify(HEADERS, body, [NEW], now=NOW)


def test_a_body_that_was_read_already_is_refused():
    with pytest.raises(InvalidSignature, match="the body is str, not bytes"):
        verify(HEADERS, BODY.decode(), [NEW], now=NOW)


def test_another_secret_is_refused_and_none_is_a_mistake():
    with pytest.raises(InvalidSignature):
        verify(HEADERS, BODY, [OLD], now=NOW)
    with pytest.raises(InvalidSecret):
        verify(HEADERS, BODY, ["short"], now=NOW)


def test_a_pair_of_keys_verifies_and_another_does_not():
    (private, public), (_, stranger) = new_pair(), new_pair()
    headers = signed_headers("msg_1", NOW, BODY, [private])
    assert verify(headers, BODY, [public], now=NOW)
    assert verify(headers, BODY, [OLD, stranger, public], now=NOW)
    for keys in ([stranger], [OLD]):
        with pytest.raises(InvalidSignature):
            verify(headers, BODY, keys, now=NOW)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*HEADERS, "Webhook-Id", "x"]),
        st.text() | st.sampled_from([RIGHT, str(NOW), "v1,AAAA"]) | st.none() | st.binary(),
    ),
    st.binary() | st.just(BODY),
)
def test_nothing_a_stranger_sends_raises_anything_else(headers, body):
    with pytest.raises(InvalidSignature):
        verify({"webhook-id": "stranger", **headers}, body, [NEW, OLD], now=NOW)
