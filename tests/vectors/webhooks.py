"""One case about signatures → what the package signs or accepts, compared with what it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from duebox.destinations.webhooks.signatures import PRIVATE, SECRET, TOLERANCE, decoded, sign, signed_headers, verify
from duebox.exceptions import InvalidSecret, InvalidSignature

Case = dict[str, Any]
COUNTED = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
"""The 32 bytes 00 to 1f, which the cases sign with unless they say otherwise."""


def cases(document: dict[str, Any]) -> Iterator[Case]:
    """All that a file holds, section by section."""
    secrets = [COUNTED, *(case["secret"] for case in document.get("vectors", []))]
    for section, entries in document.items():
        if section == "ambiguity":
            yield {**entries, "section": section, "id": section, "secrets": secrets}
        elif isinstance(entries, list):
            yield from ({**entry, "section": section} for entry in entries)


def failure(case: Case) -> str | None:
    """What is wrong with the package's answer to a case; None if nothing is."""
    player = PLAYERS.get(case["section"]) or next((play for field, play in SHAPES.items() if field in case), None)
    if player is None:
        return f"cases of the section {case['section']!r} cannot be played"
    try:
        return player(case)
    except Exception as error:
        return f"raised {error!r}"


def play_signed(case: Case) -> str | None:
    if decoded(case["secret"], SECRET).hex() != case["secret_hex"]:
        return "the secret is read as other bytes"
    if case["headers"]["webhook-signature"] != case["signature"]:
        return "the case contradicts itself"
    return _signed_and_verified(case, [case["secret"]], [case["secret"]])


def play_rotation(case: Case) -> str | None:
    return _signed_and_verified(case, case["secrets"], case["secrets"])


def play_asymmetric(case: Case) -> str | None:
    if decoded(case["secret_key"], PRIVATE)[:32].hex() != case["secret_seed_hex"]:
        return "the key is read as other bytes"
    return _signed_and_verified(case, [case["secret_key"]], [case["public_key"], case["secret_key"]])


def play_received(case: Case) -> str | None:
    must_accept = case["must"].startswith("accept")
    secrets = case.get("secrets") or [case.get("secret") or case["public_key"]]
    try:
        verify(case["headers"], _body(case), secrets, now=case["now"], tolerance=case.get("tolerance", TOLERANCE))
    except InvalidSignature as refusal:
        return f"expected {case['must']}, found a refusal: {refusal}" if must_accept else None
    except InvalidSecret as refusal:
        return f"expected {case['must']}, found {refusal}" if must_accept else None
    return None if must_accept else f"expected {case['must']}, found nothing wrong"


def play_ambiguity(case: Case) -> str | None:
    """Two ways to divide the same bytes: the one with a dot in the id must be refused on both sides."""
    seconds, signature = 1794736800, case["signature"]
    secret = next((one for one in case["secrets"] if sign("a", seconds, b"%d.{}" % seconds, [one]) == signature), None)
    if secret is None:
        return f"no secret of the file signs it as {signature}"
    try:
        return f"an id with a dot was signed: {sign(f'a.{seconds}', seconds, b'{}', [secret])}"
    except ValueError:
        headers = {"webhook-id": f"a.{seconds}", "webhook-timestamp": str(seconds), "webhook-signature": signature}
        return play_received({"must": "reject", "headers": headers, "body": "{}", "now": seconds, "secret": secret})


def _signed_and_verified(case: Case, signing: list[str], verifying: list[str]) -> str | None:
    found = signed_headers(case["msg_id"], case["timestamp"], _body(case), signing)
    if found != case["headers"]:
        return f"expected {case['headers']}, found {found}"
    for each in verifying:
        verify(found, _body(case), [each], now=case["timestamp"])
    return None


def _body(case: Case) -> bytes:
    body: bytes = case["body"].encode()
    if case.get("body_utf8_hex", body.hex()) != body.hex():
        raise ValueError("the case contradicts itself about its body")
    return body


PLAYERS = {
    "vectors": play_signed,
    "rotation": play_rotation,
    "asymmetric": play_asymmetric,
    "negative": play_received,
    "ambiguity": play_ambiguity,
}
# A section of another name is known by what its cases hold.
SHAPES = {"must": play_received, "secret_key": play_asymmetric, "secrets": play_rotation, "secret_hex": play_signed}
