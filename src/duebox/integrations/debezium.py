"""The configuration of Debezium, which reads events from the write-ahead log of PostgreSQL instead of claiming
deliveries.

Its outbox router expects a table with certain column names. The log contains tables only and no views, so this
configuration maps the columns of the table of events.

Two columns are sent as headers, because the router fails on them: it expects a timestamp as a number, but receives
PostgreSQL's timestamps with time zone as text; and it expects a version as a four-byte integer, but that of Duebox has
two bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duebox.exceptions import InvalidDestination

PUBLICATION = SLOT = "duebox"
PASSWORD = "${file:/etc/kafka-connect/duebox.properties:password}"  # noqa: S105 - where to find one
TABLE = "duebox_event"
HEADERS = {
    "type": "event_type",
    "version": "schema_version",
    "occurred_at": "occurred_at",
    "organization": "organization_id",
    "correlation_id": "correlation_id",
    "causation_id": "causation_id",
    "actor": "actor",
    "producer": "producer",
    "metadata": "metadata",
}
"""Columns that are sent as headers, with the names of the envelope. The id is a header already, named `id`."""
ROUTES = ("aggregate_type", "type")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_ROUTER = "transforms.outbox"
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_BEAT = "duebox-heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector for Kafka Connect. `database` is an entry of Django's DATABASES, whose password is left out."""

    database: Mapping[str, Any] = field(repr=False)
    name: str = "duebox"
    topic_prefix: str = "duebox"
    route_by: str = "aggregate_type"
    schema: str = "public"

    def __post_init__(self) -> None:
        for value in (self.name, self.topic_prefix):
            if not _PLAIN.fullmatch(value):
                raise InvalidDestination(
                    f"{value!r} is not a valid name in Kafka; use only letters, digits, dots, _ and -."
                )

    def as_dict(self) -> dict[str, Any]:
        """The body for its REST interface."""
        return {"name": self.name, "config": {**self._source(), **self._router()}}

    def server_steps(self, *, wal_level: str = "", published: bool = False) -> list[str]:
        """The statements to run on the server first, without those that are done already."""
        user = self.database.get("USER") or "your_user"
        steps = [
            f"GRANT SELECT ON {self.schema}.{TABLE} TO {user};",
            f"ALTER ROLE {user} REPLICATION;",
        ]
        if not published:
            what = f"{PUBLICATION} FOR TABLE {self.schema}.{TABLE} WITH (publish = 'insert')"
            steps.insert(0, f"CREATE PUBLICATION {what};")
        if wal_level != "logical":
            steps.insert(0, "ALTER SYSTEM SET wal_level = 'logical';  -- then restart the server")
        return steps

    def _source(self) -> dict[str, str]:
        settings = self.database
        source = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": str(settings.get("HOST") or "localhost"),
            "database.port": str(settings.get("PORT") or 5432),
            "database.user": str(settings.get("USER") or ""),
            "database.password": PASSWORD,
            "database.dbname": str(settings.get("NAME") or ""),
            "topic.prefix": self.topic_prefix,
            "plugin.name": "pgoutput",
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "slot.name": SLOT,
            "table.include.list": f"{self.schema}.{TABLE}",
            # Older events were delivered by other means; "initial" would send all of them.
            "snapshot.mode": "no_data",
            "tombstones.on.delete": "false",
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            **self._heartbeat(),
        }
        mode = (settings.get("OPTIONS") or {}).get("sslmode")
        return {**source, "database.sslmode": str(mode)} if mode else source

    def _heartbeat(self) -> dict[str, str]:
        """Without events, other tables still write to the log; unless the replication slot advances, the disk fills
        up."""
        return {
            "heartbeat.interval.ms": "10000",
            "heartbeat.action.query": f"SELECT pg_logical_emit_message(true, '{_BEAT}', '')",
            "message.prefix.exclude.list": _BEAT,
        }

    def _router(self) -> dict[str, str]:
        placed = ",".join(f"{column}:header:{name}" for column, name in HEADERS.items())
        captured = re.escape(f"{self.topic_prefix}.{self.schema}.{TABLE}").replace("\\-", "-")
        return {
            "transforms": "outbox",
            f"{_ROUTER}.type": "io.debezium.transforms.outbox.EventRouter",
            # Heartbeats are not events: the router ignores them.
            f"{_ROUTER}.predicate": "isEvent",
            "predicates": "isEvent",
            "predicates.isEvent.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            "predicates.isEvent.pattern": captured,
            f"{_ROUTER}.table.field.event.id": "id",
            f"{_ROUTER}.table.field.event.key": "aggregate_id",
            f"{_ROUTER}.table.field.event.type": "type",
            f"{_ROUTER}.table.field.event.payload": "data",
            f"{_ROUTER}.table.fields.additional.placement": placed,
            f"{_ROUTER}.route.by.field": self.route_by,
            f"{_ROUTER}.route.topic.replacement": f"{self.topic_prefix}.${{routedByValue}}",
        }
