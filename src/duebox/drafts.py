"""Events to come of one type, each about another row of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models

from duebox.conf import conf
from duebox.emit import NewEvent, fact_row
from duebox.fact import FactRow
from duebox.identities import actor_of, identity
from duebox.payload import encode
from duebox.promise import Own, contract_of, refuse_incomplete


class Draft:
    """What such events have in common is found out once: with a million rows it takes a third of the time of `sync`.

    Make one for each batch: what is being handled, and thereby the story they belong to, may be another in the next.
    """

    def __init__(self, type: str, aggregate_type: str) -> None:
        settings = conf()
        contract = contract_of(NewEvent(type=type), settings)
        self._check = contract.kind.check if contract.kind else None
        self._limit, self._depth = settings.PAYLOAD_LIMIT_BYTES, settings.PAYLOAD_DEPTH
        self._kind, self._aggregate_type = contract.kind, aggregate_type
        plain = fact_row(NewEvent(type=Own("duebox.draft")), settings, to_come=True)
        self._base = plain._replace(type=contract.name, version=contract.version, aggregate_type=aggregate_type)

    def about(
        self, row: models.Model, data: Mapping[str, Any] | None, organization: object, actor: object = None
    ) -> FactRow:
        """The event about this row, by `actor`, or else by whoever is known to ask."""
        whose = identity(organization, "organization")
        if self._kind is not None:
            refuse_incomplete(self._kind, self._aggregate_type, whose)
        text = encode(data, limit=self._limit, depth=self._depth, check=self._check)
        base = self._base
        if actor is not None and (who := actor_of(actor)):
            base = base._replace(actor=who.to_json())
        return base._replace(aggregate_id=identity(row, "about"), organization=whose, data=text)
