"""Where a delivery goes: a handler, a destination or one endpoint of it, as a value.

Deliveries are stored under the text of their address:

    shop.send_receipt              a handler, by its name
    to:bus                         a destination, by its alias in DUEBOX["DESTINATIONS"]
    to:hooks/0190a5b2-…            a part of a destination, by its key: an endpoint of webhooks by its id
    fan-out:hooks                  the handler that makes a delivery for each part of a destination

SQL that tells destinations from handlers compares with 'to:' too; the indexes of deliveries are made for that.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

OUTSIDE = "to:"
FAN_OUT = "fan-out:"


class Address(NamedTuple):
    kind: Literal["handler", "destination", "fan-out"]
    alias: str
    """Of the destination; of a handler its name."""
    key: str = ""
    """Of a part of a destination."""

    @classmethod
    def parse(cls, stored: str) -> Address:
        """The address that a delivery is stored under."""
        if stored.startswith(OUTSIDE):
            alias, _, key = stored[len(OUTSIDE) :].partition("/")
            return cls("destination", alias, key)
        if stored.startswith(FAN_OUT):
            return cls("fan-out", stored[len(FAN_OUT) :])
        return cls("handler", stored)

    @classmethod
    def of_destination(cls, given: str, key: object = "") -> Address:
        """A destination or a part of it as people write it: with `to:` or without."""
        alias, _, own = given.removeprefix(OUTSIDE).partition("/")
        return cls("destination", alias, str(key) or own)

    @classmethod
    def of_fan_out(cls, alias: str) -> Address:
        return cls("fan-out", alias)

    def __str__(self) -> str:
        """As deliveries are stored."""
        match self.kind:
            case "destination":
                return f"{OUTSIDE}{self.plain}"
            case "fan-out":
                return f"{FAN_OUT}{self.alias}"
        return self.alias

    @property
    def plain(self) -> str:
        """As people write it: a destination without `to:`."""
        return f"{self.alias}/{self.key}" if self.key else self.alias

    @property
    def whole(self) -> Address:
        """The destination that this is a part of; otherwise itself."""
        return self._replace(key="") if self.key else self


def is_outside(stored: str) -> bool:
    """Whether a delivery goes to a destination, without the cost of a value: claiming asks it for every name."""
    return stored.startswith(OUTSIDE)
