"""The runner plays any file of a shape, whatever its cases are about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors import ssrf, webhooks

FOLDER = Path(__file__).parent


def played(section, entry):
    [case] = ssrf.cases({section: [entry]})
    return ssrf.failure(case)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("00000000000000000017700000001", "127.0.0.1"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("localhost", "::1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("[::ffff:7f00:1]", "::ffff:127.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("127%2e1", "127.0.0.1"),
        ("0x08080808", "8.8.8.8"),
        ("dns.google", "8.8.8.8"),
    ],
)
def test_a_spelling_is_the_address_behind_it(host, address):
    assert played("host_spellings", {"host": host, "resolves_to": address}) is None


@pytest.mark.parametrize(
    ("host", "address"), [("127.1", "127.0.0.2"), ("0x08080808", "127.0.0.1"), ("127%2e1", "8.8.8.8")]
)
def test_a_spelling_of_another_address_is_a_failure(host, address):
    assert played("host_spellings", {"host": host, "resolves_to": address}) is not None


@pytest.mark.parametrize(
    "url",
    [
        "http://x.test/",
        "https://localhost./",
        "https://any.localhost/",
        "https://metadata/",
        "https://metadata.google.internal/",
        "https://127.0.0.1.nip.io/",
        "https://a.10-0-0-1.sslip.io/",
        "https://printer.local/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://x.test%2f@127.0.0.1/",
        "https://x.test:65536/",
        {"url": "https://user:password@x.test/", "why": "user"},
        None,
    ],
)
def test_a_url_that_leads_inside_is_refused(url):
    assert played("url_refuse", url) is None
    assert played("url_accept", url) is not None


@pytest.mark.parametrize("url", ["https://x.test/", "https://1.1.1.1/a?b", "https://bücher.example:443"])
def test_a_url_that_leads_outside_is_accepted(url):
    assert played("url_accept", url) is None
    assert played("url_refuse", url) is not None


def test_cases_about_signatures_are_known_by_what_they_hold():
    document = json.loads((FOLDER / "webhooks.json").read_text())
    renamed = {f"more {name}": cases for name, cases in document.items() if isinstance(cases, list)}
    cases = list(webhooks.cases(renamed))
    assert len(cases) == 23
    assert [(case["id"], why) for case in cases if (why := webhooks.failure(case))] == []
