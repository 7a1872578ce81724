"""The package `standardwebhooks` accepts what is signed here, and signs what is accepted here."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from duebox.destinations.webhooks.signatures import SIGNATURE, new_secret, signed_headers, verify

ids = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
objects = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(-9, 9), max_size=3)
some = settings(max_examples=25, deadline=None)


def now():
    return int(datetime.now(UTC).timestamp())


@some
@given(ids, objects)
def test_it_accepts_what_is_signed_here_across_a_rotation(id, data):
    body = json.dumps(data).encode()
    old, new = new_secret(), new_secret()
    headers = signed_headers(id, now(), body, [new, old])
    assert Webhook(new).verify(body, headers) == data
    assert Webhook(old).verify(body, headers) == data
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(body, headers)


@some
@given(ids, st.text(max_size=50))
def test_what_it_signs_is_accepted_here(id, text):
    secret, seconds = new_secret(), 1794736800
    signature = Webhook(secret).sign(id, datetime.fromtimestamp(seconds, UTC), text)
    headers = {"webhook-id": id, "webhook-timestamp": str(seconds), "webhook-signature": signature}
    assert verify(headers, text.encode(), [secret], now=seconds).id == id
    assert signed_headers(id, seconds, text.encode(), [secret])[SIGNATURE] == signature
