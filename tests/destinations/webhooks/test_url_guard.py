"""A webhook goes to public addresses only, and to the ones that were looked at."""

from __future__ import annotations

import socket

import pytest

from duebox.destinations.webhooks.url_guard import Guard, Pinned
from duebox.exceptions import Blocked, InvalidGuard

PUBLIC, PRIVATE, METADATA = "93.184.216.34", "10.1.2.3", "169.254.169.254"


class Names:
    """A resolver that gives the next of these answers each time it is asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, host, port, *, type):
        self.asked.append((host, port))
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, type, 6, "", (address, port))
            for address in self.answers.pop(0)
        ]


def test_a_name_is_resolved_once_and_its_addresses_are_pinned():
    names = Names([PUBLIC, "2606:4700::1111", PUBLIC])
    route = Guard(resolver=names).route("https://Hooks.Example.com/in?key=1")
    assert names.asked == [("hooks.example.com", 443)]
    assert route.target.host == "hooks.example.com"
    assert route.target.path == "/in?key=1"
    assert route.addresses == (
        Pinned(socket.AF_INET, PUBLIC, 443),
        Pinned(socket.AF_INET6, "2606:4700::1111", 443),
    )


def test_an_answer_that_changes_afterwards_changes_nothing():
    names = Names([PUBLIC], [METADATA])
    guard = Guard(resolver=names)
    route = guard.route("https://rebinding.example/")
    assert [pinned.address for pinned in route.addresses] == [PUBLIC]
    assert len(names.asked) == 1
    with pytest.raises(Blocked, match=r"rebinding.example is 169.254.169.254, which is a metadata address of a cloud"):
        guard.route("https://rebinding.example/")


@pytest.mark.parametrize(
    "denied", [PRIVATE, METADATA, "127.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "0.0.0.0", "nonsense"]
)
def test_one_answer_that_is_not_allowed_blocks_the_others_with_it(denied):
    for answers in ([PUBLIC, denied], [denied, PUBLIC]):
        with pytest.raises(Blocked):
            Guard(resolver=Names(answers)).route("https://mixed.example/")


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://①②⑦.⓪.⓪.①/", "https://[::1]/",
     "https://[::ffff:169.254.169.254]/", "https://169.254.169.254/latest/meta-data/", "https://0/"],
)  # fmt: skip
def test_an_address_in_a_url_is_looked_at_without_asking_the_resolver(url):
    names = Names()
    for look in (Guard(resolver=names).route, Guard(resolver=names).read):
        with pytest.raises(Blocked):
            look(url)
    assert names.asked == []


def test_a_public_address_in_a_url_needs_no_resolver():
    names = Names()
    assert Guard(resolver=names).route("https://0x01010101/").addresses == (Pinned(socket.AF_INET, "1.1.1.1", 443),)
    assert Guard(resolver=names).resolve("2606:4700::1111", 443)[0].family == socket.AF_INET6
    assert Guard(resolver=names).resolve("[2606:4700::1111]", 443)[0].address == "2606:4700::1111"
    assert names.asked == []


def test_reading_a_url_resolves_nothing():
    names = Names()
    assert Guard(resolver=names).read("https://example.com/").host == "example.com"
    assert names.asked == []


def test_the_real_resolver_is_asked_by_default():
    with pytest.raises(Blocked, match=r"localhost is (127.0.0.1|::1), which is loopback"):
        Guard().route("https://localhost/")


def test_a_name_that_cannot_be_resolved_may_pass_later():
    def fail(host, port, *, type):
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    with pytest.raises(OSError, match="try again"):
        Guard(resolver=fail).route("https://example.com/")
    with pytest.raises(OSError, match=r"example.com has no address"):
        Guard(resolver=Names([])).route("https://example.com/")


def test_a_refusal_names_the_host_and_the_address_at_most():
    with pytest.raises(Blocked) as refusal:
        Guard(resolver=Names([PRIVATE])).route("https://hooks.example.com/token-123?key=456")
    assert str(refusal.value) == "hooks.example.com is 10.1.2.3, which is private; only public addresses are allowed."


def open_to(entry, *, host="hooks.example", address):
    return Guard(allow_private=[entry]).allowed(address, host=host)


def test_a_network_opens_the_private_addresses_in_it():
    assert open_to("10.1.0.0/16", address="10.1.2.3")
    assert open_to("10.1.0.0/16", address="::ffff:10.1.2.3")
    assert open_to("fd12::/16", address="fd12::1")
    assert open_to("100.64.0.0/10", address="100.64.0.1")
    assert not open_to("10.1.0.0/16", address="10.2.0.1")
    assert not open_to("10.1.0.0/16", address="127.0.0.1")


@pytest.mark.parametrize(("network", "metadata"), [("fc00::/7", "fd00:ec2::254"), ("100.64.0.0/10", "100.100.100.200")])
def test_a_network_never_opens_the_metadata_of_a_cloud(network, metadata):
    assert not open_to(network, address=metadata)
    assert open_to(metadata, address=metadata)


@pytest.mark.parametrize("address", [PRIVATE, METADATA, "127.0.0.1", "::1", "fe80::1"])
def test_an_exact_address_or_an_exact_host_opens_it(address):
    assert open_to(address, address=address)
    assert open_to("Hooks.Example.", address=address)
    assert not open_to("example", address=address)
    assert not open_to("other.example", address=address)
    assert not open_to("127.0.0.2", address=address)


@pytest.mark.parametrize("address", ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "64:ff9b::a01:203"])
def test_some_addresses_are_never_opened(address):
    assert not open_to("hooks.example", address=address)


def test_an_opened_host_is_pinned_like_any_other():
    guard = Guard(allow_private=["hooks.internal"], http=True, ports=[8080], resolver=Names([PRIVATE], [PRIVATE]))
    route = guard.route("http://hooks.internal:8080/")
    assert route.addresses == (Pinned(socket.AF_INET, PRIVATE, 8080),)
    with pytest.raises(Blocked):
        guard.route("http://hooks.external:8080/")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("0.0.0.0/0", "is not inside of one private range"),
        ("::/0", "is not inside of one private range"),
        ("0.0.0.0/1", "is not inside of one private range"),
        ("8.8.8.0/24", "is not inside of one private range"),
        ("10.0.0.0/7", "is not inside of one private range"),
        ("8.0.0.0/5", "is not inside of one private range"),
        ("127.0.0.0/8", "which is loopback; name the exact address or the exact host"),
        ("169.254.0.0/16", "which is link-local; name the exact address"),
        ("169.254.169.0/24", "which is link-local"),
        ("224.0.0.0/8", "which is multicast; no webhook can go there"),
        ("10.1.2.3/16", "is not a network"),
        ("10.0.0.0/x", "is not a network"),
        ("0.0.0.0", "which is of this host; no webhook can go there"),
        ("*.internal", "without \\*"),
        (".internal", "without \\*"),
        ("", "without \\*"),
        ("https://hooks.internal", "is not a network"),
        (None, "is not a network"),
        (167772160, "is not a network"),
    ],
)
def test_an_opening_that_is_too_wide_or_none_is_refused(entry, words):
    with pytest.raises(InvalidGuard, match=words):
        Guard(allow_private=[entry])


def test_openings_are_a_list():
    with pytest.raises(InvalidGuard, match=r"write a list: \['10.0.0.0/8'\]"):
        Guard(allow_private="10.0.0.0/8")
