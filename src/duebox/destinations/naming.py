"""Names with places that each event fills: a stream, a topic, a subject or a routing key.

"shop.{event_type}"    becomes "shop.order.paid"
"""

from __future__ import annotations

import re
from string import Formatter

from duebox.exceptions import InvalidDestination
from duebox.fact import Fact

NOTHING = "none"
"""Stands where an event has no aggregate, or no organization: an empty place would break most names."""

_PLACES = {
    "event_id": "id",
    "event_type": "type",
    "aggregate_type": "aggregate_type",
    "aggregate_id": "aggregate_id",
    "organization_id": "organization",
}


class Name:
    """`unsafe` are characters that the transport does not take; each becomes an underscore. The text itself is left as
    it is: whoever wrote it knows the transport."""

    def __init__(self, text: str, *, option: str, unsafe: str = "") -> None:
        self._text = _checked(text, option)
        self._places = {name for _, name, _, _ in Formatter().parse(text) if name}
        self._unsafe = re.compile(unsafe) if unsafe else None

    def of(self, fact: Fact) -> str:
        """The name for an event."""
        if not self._places:
            return self._text
        return self._text.format(**{place: self._value(fact, place) for place in self._places})

    def _value(self, fact: Fact, place: str) -> str:
        value: str = getattr(fact.row, _PLACES[place]) or NOTHING
        return self._unsafe.sub("_", value) if self._unsafe else value


def _checked(text: str, option: str) -> str:
    try:
        parts = list(Formatter().parse(text))
    except (TypeError, ValueError) as error:
        raise InvalidDestination(
            f"{option}={text!r} cannot be read ({error}); write it as 'shop.{{event_type}}'."
        ) from error
    for _, name, spec, conversion in parts:
        if name is not None and (name not in _PLACES or spec or conversion):
            raise InvalidDestination(f"{option}={text!r} has a place {name!r}; known are {', '.join(_PLACES)}.")
    if not text:
        raise InvalidDestination(f"{option} is empty; give it a name.")
    return text
