"""Secrets and keys, as people pass them on."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest

from duebox.destinations.webhooks.signatures import new_secret, sign, signing_keys, verifying_keys
from duebox.exceptions import InvalidSecret
from tests.destinations.webhooks.keys import new_pair

BYTES = bytes(range(32))
TEXT = base64.b64encode(BYTES).decode()
PRIVATE, PUBLIC = new_pair()


@pytest.mark.parametrize("text", [f"whsec_{TEXT}", TEXT, f"whsec_{TEXT.rstrip('=')}", TEXT.rstrip("=")])
def test_a_secret_is_base64_with_or_without_prefix_and_padding(text):
    [key] = signing_keys([text])
    assert key.secret == BYTES


def test_a_secret_without_prefix_is_never_taken_for_its_letters():
    [key] = signing_keys(["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
    assert key.secret.hex() == "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0"


def test_new_secrets_have_32_bytes_and_differ():
    one, other = new_secret(), new_secret()
    assert one != other
    assert one.startswith("whsec_")
    assert [len(key.secret) for key in signing_keys([one, other])] == [32, 32]


@pytest.mark.parametrize("size", [24, 64])
def test_the_sizes_of_the_specification_are_taken(size):
    assert signing_keys([base64.b64encode(b"x" * size).decode()])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("whsec_!", "something else"),
        ("", "something else"),
        (None, "something else"),
        (BYTES, "something else"),
        (f"whsec_{TEXT}\n", "on one line"),
        (f" whsec_{TEXT}", "without spaces"),
        (f"whsec_{TEXT[:10]} {TEXT[10:]}", "without spaces"),
        (f"whsec_{'-_' * 16}", "something else"),
        (f"WHSEC_{TEXT}", "something else"),
        (f"whsec_{'A' * 33}", "is incomplete"),
        (base64.b64encode(b"x" * 23).decode(), "24 to 64 bytes, this one 23"),
        (base64.b64encode(b"x" * 65).decode(), "24 to 64 bytes, this one 65"),
        (f"whsk_{TEXT}", "has 64 bytes, this one 32"),
        (f"whpk_{base64.b64encode(b'x' * 31).decode()}", "has 32 bytes, this one 31"),
        (f"whsk_{base64.b64encode(b'x' * 64).decode()}", "do not belong together"),
    ],
)
def test_what_is_no_secret_is_refused_without_showing_it(text, words):
    with pytest.raises(InvalidSecret, match=words) as refusal:
        verifying_keys([text])
    assert not text or str(text)[-12:] not in str(refusal.value)


@pytest.mark.parametrize("texts", [f"whsec_{TEXT}", b"x", [], ()])
def test_secrets_are_a_list(texts):
    with pytest.raises(InvalidSecret, match="must be a list"):
        signing_keys(texts)


def test_a_secret_is_never_shown():
    shown = repr([*signing_keys([TEXT, PRIVATE]), *verifying_keys([PUBLIC])])
    assert "x00" not in shown
    assert TEXT not in shown
    assert "object at" not in shown


def test_a_public_key_cannot_sign():
    with pytest.raises(InvalidSecret, match="is public and cannot sign"):
        sign("id", 1, b"", [PUBLIC])


def test_keys_without_the_package_are_refused_with_the_command_and_secrets_still_work():
    program = f"""
import sys
sys.modules["cryptography"] = None
from duebox.destinations.webhooks.signatures import sign
from duebox.exceptions import NotReady
print(sign("id", 1, b"", ["{TEXT}"]).startswith("v1,"))
try:
    sign("id", 1, b"", ["{PRIVATE}"])
except NotReady as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "True"
    assert second.endswith("run: pip install cryptography")
