"""Sign what is sent, as Standard Webhooks 1.0.0 says."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from duebox.destinations.webhooks.keys import SigningKey, signing_keys
from duebox.exceptions import InvalidSecret

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
MOST_SECRETS = 2
# A dot in the id would let its end pass for the timestamp, and the timestamp for the body.
_ID = re.compile(r"[!-\-/-~]{1,255}")


def sign(id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> str:
    """The value of the header `webhook-signature`.

    The timestamp is that of the attempt, in seconds, and the body the very bytes that are sent. While a secret is being
    replaced give both, the new one first: the receiver may still have the old one.
    """
    content = signed_content(id, timestamp, body)
    keys = signing_keys(secrets)
    if len(keys) > MOST_SECRETS:
        raise InvalidSecret(
            f"At most {MOST_SECRETS} secrets sign, these are {len(keys)}; end the older rotation first."
        )
    return signature(content, keys)


def signature(content: bytes, keys: Sequence[SigningKey]) -> str:
    """The same for whoever has read the secrets before, which takes longer than to sign."""
    return " ".join([f"{key.version},{base64.b64encode(key.sign(content)).decode()}" for key in keys])


def signed_headers(id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The three headers of a webhook."""
    return {ID: id, TIMESTAMP: str(timestamp), SIGNATURE: sign(id, timestamp, body, secrets)}


def signed_content(id: str, timestamp: int, body: bytes) -> bytes:
    if not is_id(id):
        raise ValueError(f"{id!r} cannot be the id of a webhook; use visible ASCII without a dot, such as a UUID.")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
        raise ValueError(f"{timestamp!r} is not a timestamp; give whole seconds since 1970.")
    if not isinstance(body, bytes):
        raise TypeError(f"The body is {type(body).__name__}; give the bytes that are sent.")
    return b"%s.%d.%s" % (id.encode(), timestamp, body)


def is_id(id: object) -> bool:
    return isinstance(id, str) and _ID.fullmatch(id) is not None
