from __future__ import annotations

import pytest

import duebox
from duebox.events.address import Address, is_outside
from duebox.exceptions import InvalidSubscriber

STORED = {
    "shop.send_receipt": Address("handler", "shop.send_receipt"),
    "to:bus": Address("destination", "bus"),
    "to:hooks/0190a5b2": Address("destination", "hooks", "0190a5b2"),
    "to:queue/a/b": Address("destination", "queue", "a/b"),
    "fan-out:hooks": Address("fan-out", "hooks"),
}


@pytest.mark.parametrize("text", STORED)
def test_an_address_is_stored_as_a_text_and_read_back(text):
    address = Address.parse(text)
    assert address == STORED[text]
    assert str(address) == text
    assert is_outside(text) == (address.kind == "destination")


def test_people_may_leave_the_prefix_of_a_destination_out():
    assert Address.of_destination("bus") == Address.of_destination("to:bus") == Address("destination", "bus")
    assert str(Address.of_destination("hooks/7")) == "to:hooks/7"
    assert str(Address.of_destination("hooks", 7)) == "to:hooks/7"
    assert Address.parse("to:hooks/7").plain == "hooks/7"


def test_a_part_belongs_to_its_destination():
    assert str(Address.parse("to:hooks/7").whole) == "to:hooks"
    assert str(Address.parse("to:hooks").whole) == "to:hooks"
    assert str(Address.parse("shop.pay").whole) == "shop.pay"


@pytest.mark.parametrize("name", ["to:bus", "fan-out:hooks"])
def test_a_handler_cannot_take_the_name_of_a_destination(name):
    with pytest.raises(InvalidSubscriber, match="begins with the prefix of destinations"):
        duebox.on("order.paid", name=name)(lambda event: None)
