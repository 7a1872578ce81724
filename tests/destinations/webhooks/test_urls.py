"""What the URL of a webhook must be like."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duebox.destinations.webhooks.url_guard import Target, read_host, read_url
from duebox.exceptions import Blocked, Undelivered
from tests.support import examples


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", Target("https", "example.com", 443, "/")),
        ("https://example.com/a/b?c=d&e", Target("https", "example.com", 443, "/a/b?c=d&e")),
        ("https://example.com?c=d", Target("https", "example.com", 443, "/?c=d")),
        ("HTTPS://Example.COM./", Target("https", "example.com", 443, "/")),
        ("https://example.com:443/", Target("https", "example.com", 443, "/")),
        ("https://example.com:80/", Target("https", "example.com", 80, "/")),
        ("https://my_hook.example.com/%20@:x", Target("https", "my_hook.example.com", 443, "/%20@:x")),
        ("https://bücher.example/", Target("https", "xn--bcher-kva.example", 443, "/")),
        ("https://例え。テスト/", Target("https", "xn--r8jz45g.xn--zckzah", 443, "/")),
        ("https://[2606:4700:0::1111]/", Target("https", "2606:4700::1111", 443, "/")),
        ("https://1.1.1.1/", Target("https", "1.1.1.1", 443, "/")),
    ],
)
def test_these_can_be_sent_to(url, target):
    assert read_url(url) == target


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "is invalid"),
        (None, "not a text"),
        ("example.com", "is invalid"),
        ("//example.com/", "is invalid"),
        ("https:/example.com", "is invalid"),
        ("https:example.com", "is invalid"),
        ("https://" + "a" * 2048, "up to 2048 characters"),
        ("http://example.com/", "does not begin with https://"),
        ("ftp://example.com/", "does not begin with https://"),
        ("file:///etc/passwd", "does not begin with https://"),
        ("javascript://example.com/%0aalert(1)", "control characters"),
        ("https:///path", "no host"),
        ("https://:443/", "no host"),
        ("https://example.com/#", "fragment"),
        ("https://example.com#@127.0.0.1/", "fragment"),
        ("https://user@example.com/", "user name or a password"),
        ("https://user:secret@example.com/", "user name or a password"),
        ("https://@example.com/", "user name or a password"),
        ("https://example.com\\@127.0.0.1/", "backslash"),
        ("https://example.com/a\\b", "backslash"),
        (" https://example.com/", "spaces or control characters"),
        ("https://example.com/\n", "spaces or control characters"),
        ("https://exam\tple.com/", "spaces or control characters"),
        ("https://example.com/a b", "spaces or control characters"),
        ("https://example.com/\u00a0", "spaces or control characters"),
        ("https://example.com/\u2028", "spaces or control characters"),
        ("https://exam\u200bple.com/", "spaces or control characters"),
        ("https://example.com/\x00", "spaces or control characters"),
        ("https://example.com/%0d%0aHost:evil", "spaces or control characters"),
        ("https://example.com/%00", "spaces or control characters"),
        ("https://example.com/ü", "percent-encode it"),
        ("https://example.com:22/", "Port 22 is not allowed"),
        ("https://example.com:0/", "a port that is not a number"),
        ("https://example.com:/", "a port that is not a number"),
        ("https://example.com:0443/", "a port that is not a number"),
        ("https://example.com:443:443/", "a port that is not a number"),
        ("https://example.com:99999/", "Port 99999 is not allowed"),
        ("https://example.com:+443/", "a port that is not a number"),
        ("https://exa%6dple.com/", "is not a name"),
        ("https://example..com/", "is not a name"),
        ("https://-example.com/", "is not a name"),
        ("https://exam,ple.com/", "is not a name"),
        ("https://*.example.com/", "is not a name"),
        ("https://" + "a" * 64 + ".com/", "is not a name"),
        ("https://" + "a." * 127 + "com/", "is not a name"),
        ("https://./", "is not a name"),
        ("https://[::1", "no host"),
        ("https://[1.1.1.1]/", "not an IPv6 address"),
        ("https://[fe80::1%25eth0]/", "not an IPv6 address"),
        ("https://[::1]x/", "no host"),
        ("https://1.2.3.4.5/", "not an IPv4 address"),
        ("https://256.0.0.1/", "not an IPv4 address"),
        ("https://1.2.3.08/", "not an IPv4 address"),
        ("https://example.com.1/", "not an IPv4 address"),
        ("https://4294967296/", "not an IPv4 address"),
        (f"https://{'9' * 60}/", "not an IPv4 address"),
        ("https://0x100000000/", "not an IPv4 address"),
        ("https://1.2.65536/", "not an IPv4 address"),
    ],
)
def test_these_cannot(url, words):
    with pytest.raises(Blocked, match=words):
        read_url(url)


def test_an_operator_may_allow_http_and_other_ports():
    assert read_url("http://example.com/", http=True).port == 80
    assert read_url("https://example.com:8443/", ports=[8443]).port == 8443
    with pytest.raises(Blocked):
        read_url("ftp://example.com/", http=True, ports=[21])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("0x7f.0.0.0x1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        (f"{'0' * 50}17700000001", "127.0.0.1"),
        (f"0x{'0' * 50}7f000001", "127.0.0.1"),
        ("127.000.0.0001", "127.0.0.1"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("\uff11\uff12\uff17\uff0e\uff11", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("169.16689662", "169.254.169.254"),
        ("[::ffff:127.0.0.1]", "::ffff:7f00:1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
    ],
)
def test_an_address_has_one_spelling_however_it_is_written(text, address):
    assert read_host(text) == address


def test_a_refusal_speaks_against_the_endpoint_and_says_nothing_of_the_rest_of_the_url():
    for url in (
        "https://x.test:22/secret",
        "https://key@x.test/secret",
        "https://x.test/secret#",
        "ftp://x.test/secret",
    ):
        with pytest.raises(Blocked) as refusal:
            read_url(url)
        assert isinstance(refusal.value, Undelivered)
        assert "secret" not in str(refusal.value)
        assert "key" not in str(refusal.value)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.text(max_size=30) | st.text(alphabet="htps:/.@[]?#%\\0x1é①。 ", max_size=30).map(lambda rest: f"https://{rest}")
)
@example("https://\u2100.com/")
def test_any_text_is_a_target_or_refused(text):
    try:
        target = read_url(text)
    except Blocked:
        return
    assert target.scheme == "https"
    assert target.host.isascii()
    assert target.port in (443, 80)
    assert target.path.startswith("/")
