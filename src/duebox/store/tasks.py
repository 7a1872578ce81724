"""A task on its way to a worker: an event of its own, and one delivery of it."""

from __future__ import annotations

from datetime import datetime

from duebox.fact import FactRow
from duebox.store.statements import run, text_array


def enqueue(using: str, row: FactRow, subscriber: str, due: datetime | None) -> None:
    """Nobody else receives the event, whatever they listen to. Without `due` it is due now."""
    routes = {"route_subscriber": text_array([subscriber]), "route_stream": text_array([None])}
    run("emit_one", using, {**row._asdict(), **routes, "now": due})
