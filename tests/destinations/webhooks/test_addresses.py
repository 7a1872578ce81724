"""Which addresses are public."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebox.destinations.webhooks.url_guard import RANGES, is_public
from tests.support import examples


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0",
     "223.255.255.255", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"],
)  # fmt: skip
def test_these_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "10.0.0.1", "100.127.255.255", "127.255.255.255", "169.254.169.254", "172.31.255.255", "192.168.0.1",
     "224.0.0.1", "255.255.255.255", "168.63.129.16", "192.0.0.192", "100.100.100.200",
     "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
     "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "3fff::1", "5f00::1",
     "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "4000::1",
     "e000::1"],
)  # fmt: skip
def test_these_are_not(address):
    assert not is_public(address)


@pytest.mark.parametrize("each", RANGES, ids=lambda each: str(each.network))
def test_a_range_ends_where_it_says(each):
    assert not is_public(str(each.network[0]))
    assert not is_public(str(each.network[-1]))


@settings(max_examples=examples(100), deadline=None)
@given(st.ip_addresses())
def test_what_python_does_not_call_global_is_never_public(address):
    if not address.is_global:
        assert not is_public(str(address))


@settings(max_examples=examples(100), deadline=None)
@given(st.ip_addresses(v=4))
def test_an_address_wrapped_into_another_is_judged_by_what_is_inside(address):
    assert is_public(f"::ffff:{address}") == is_public(str(address))
    for wrapped in (f"64:ff9b::{address}", f"::{address}", f"::ffff:0:{address}"):
        assert not is_public(wrapped)
    assert not is_public(str(ip_address((0x2002 << 112) + (int(address) << 80))))
