"""Change-data-capture: the configuration of the connector, and that the log of PostgreSQL has what it maps.

There is no Kafka Connect here. What Debezium would read is read instead: pgoutput, from a slot, by the publication
that the command asks for.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, connections

import duebox
from duebox import embedded
from duebox.integrations.debezium import HEADERS, Connector

ROUTER = "transforms.outbox."
# The names of Debezium 3.6's PostgreSQL connector and outbox router, and of Kafka Connect 4, that may be used.
KNOWN = {
    "connector.class", "tasks.max", "key.converter", "value.converter", "transforms", "predicates",
    "predicates.isEvent.type", "predicates.isEvent.pattern", f"{ROUTER}type", f"{ROUTER}predicate",
    "database.hostname", "database.port", "database.user", "database.password", "database.dbname", "database.sslmode",
    "topic.prefix", "plugin.name", "publication.name", "publication.autocreate.mode", "slot.name",
    "table.include.list", "snapshot.mode", "tombstones.on.delete", "heartbeat.interval.ms", "heartbeat.action.query",
    "message.prefix.exclude.list", f"{ROUTER}table.field.event.id", f"{ROUTER}table.field.event.key",
    f"{ROUTER}table.field.event.type", f"{ROUTER}table.field.event.payload",
    f"{ROUTER}table.fields.additional.placement", f"{ROUTER}route.by.field", f"{ROUTER}route.topic.replacement",
}  # fmt: skip


@pytest.fixture(scope="module")
def logical(django_db_blocker) -> Iterator[str]:
    """An alias to a server of its own whose log can be decoded."""
    with tempfile.TemporaryDirectory(prefix="duebox-cdc-") as folder:
        # As small as it goes: it is thrown away.
        server = embedded.start(
            Path(folder), settings={"wal_level": "logical", "shared_buffers": "16MB", "fsync": "off"}
        )
        connections.settings["logical"] = {**connections.settings["default"], **server.database("outbox")}
        try:
            with django_db_blocker.unblock():
                call_command("migrate", "duebox", database="logical", verbosity=0)
                yield "logical"
        finally:
            connections["logical"].close()
            del connections["logical"], connections.settings["logical"]
            server.stop()


@pytest.fixture
def unblocked(django_db_blocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


def connector(manage, *words: str) -> dict[str, Any]:
    return json.loads(manage("duebox", "sql", "cdc", "--json", *words))


def mapped(config: dict[str, str]) -> set[str]:
    """The columns that a configuration names."""
    fields = {value for name, value in config.items() if name.startswith(f"{ROUTER}table.field.event.")}
    placed = config[f"{ROUTER}table.fields.additional.placement"].split(",")
    return fields | {config[f"{ROUTER}route.by.field"]} | {each.split(":")[0] for each in placed}


@pytest.mark.django_db
def test_the_configuration_is_made_of_the_settings_of_the_database(manage):
    made = connector(manage, "--name", "shop-events", "--topic-prefix", "shop")
    config, entry = made["config"], connection.settings_dict
    assert made["name"] == "shop-events"
    assert (config["database.dbname"], config["database.user"]) == (entry["NAME"], entry["USER"])
    assert config["table.include.list"] == "public.duebox_event"
    assert config[f"{ROUTER}route.topic.replacement"] == "shop.${routedByValue}"
    assert config["predicates.isEvent.pattern"] == r"shop\.public\.duebox_event"
    assert all(isinstance(value, str) for value in config.values())


@pytest.mark.django_db
def test_it_has_only_names_that_debezium_knows(manage):
    assert set(connector(manage)["config"]) <= KNOWN


def test_the_password_is_never_part_of_it():
    entry = {"HOST": "db", "PORT": "", "USER": "shop", "NAME": "shop", "PASSWORD": "s3cret-of-shop"}
    made = json.dumps(Connector(database={**entry, "OPTIONS": {"sslmode": "verify-full"}}).as_dict())
    assert "s3cret-of-shop" not in made
    assert "${file:" in made
    assert '"database.sslmode": "verify-full"' in made


@pytest.mark.django_db
def test_what_the_router_would_stop_on_is_not_mapped(manage):
    """A timestamp with time zone comes to it as text, a smallint as two bytes; it takes neither."""
    config = connector(manage)["config"]
    assert f"{ROUTER}table.field.event.timestamp" not in config
    assert f"{ROUTER}table.field.event.schema.version" not in config
    assert {"occurred_at", "version"} <= set(HEADERS)


@pytest.mark.django_db
def test_every_column_that_is_mapped_exists(manage):
    with connection.cursor() as cursor:
        columns = {each.name for each in connection.introspection.get_table_description(cursor, "duebox_event")}
    assert mapped(connector(manage)["config"]) <= columns
    assert mapped(connector(manage, "--route-by", "type")["config"]) <= columns


@pytest.mark.django_db
def test_a_name_that_kafka_does_not_take_is_refused(manage):
    with pytest.raises(CommandError, match="'my shop' is not a valid name in Kafka"):
        connector(manage, "--topic-prefix", "my shop")


@pytest.mark.django_db
def test_it_says_what_is_to_be_done_on_the_server(manage):
    told = manage("duebox", "sql", "cdc")
    assert "ALTER SYSTEM SET wal_level = 'logical'" in told
    assert "CREATE PUBLICATION duebox FOR TABLE public.duebox_event WITH (publish = 'insert');" in told


def test_the_log_has_every_column_that_is_mapped(logical, manage, unblocked):
    steps = [line.strip() for line in manage("duebox", "sql", "cdc", "--database", logical).splitlines()]
    assert not [step for step in steps if "wal_level" in step]
    [publication] = [step for step in steps if step.startswith("CREATE PUBLICATION")]
    config = connector(manage, "--database", logical)["config"]
    with connections[logical].cursor() as cursor:
        cursor.execute(publication)
        cursor.execute("SELECT pg_create_logical_replication_slot('duebox', 'pgoutput')")
        before = duebox.emit("order.paid", {"total": 150}, about=("order", 42), organization=7, using=logical)
        cursor.execute(config["heartbeat.action.query"])
        cursor.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes("
            "'duebox', NULL, NULL, 'proto_version', '1', 'publication_names', 'duebox', 'messages', 'true')"
        )
        log = [bytes(data) for (data,) in cursor.fetchall()]
    [row] = inserts(log)
    assert mapped(config) <= set(row)
    assert row[config[f"{ROUTER}table.field.event.id"]] == str(before.id)
    assert row[config[f"{ROUTER}table.field.event.key"]] == "42"
    assert row[config[f"{ROUTER}route.by.field"]] == "order"
    assert json.loads(row[config[f"{ROUTER}table.field.event.payload"]]) == {"total": 150}
    # The heartbeat ends in a commit, by which the slot can move on.
    assert [chr(data[0]) for data in log][-3:] == ["B", "M", "C"]
    assert "CREATE PUBLICATION" not in manage("duebox", "sql", "cdc", "--database", logical)


def test_what_retention_removes_is_not_in_the_log(logical, unblocked):
    with connections[logical].cursor() as cursor:
        cursor.execute("DROP PUBLICATION IF EXISTS duebox")
        cursor.execute(Connector(database={}).server_steps(wal_level="logical")[0])
        cursor.execute("SELECT pg_create_logical_replication_slot('later', 'pgoutput')")
        duebox.emit("order.paid", using=logical)
        cursor.execute("DELETE FROM duebox_event")
        cursor.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes("
            "'later', NULL, NULL, 'proto_version', '1', 'publication_names', 'duebox')"
        )
        kinds = [chr(bytes(data)[0]) for (data,) in cursor.fetchall()]
    assert kinds.count("I") == 1
    assert "D" not in kinds


@pytest.mark.django_db
def test_the_view_has_the_columns_of_debeziums_outbox():
    fact = duebox.emit("order.paid", {"total": 150}, about=("order", 42))
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, aggregatetype, aggregateid, type, payload FROM duebox_outbox")
        [(event_id, *rest, payload)] = cursor.fetchall()
    assert event_id == fact.id
    assert rest == ["order", "42", "order.paid"]
    assert json.loads(payload) == {"total": 150}


def inserts(log: list[bytes]) -> list[dict[str, str | None]]:
    """The rows that were inserted, by name of column, as pgoutput tells them."""
    columns: list[str] = []
    found = []
    for data in log:
        if data[:1] == b"R":
            columns = _columns(data)
        elif data[:1] == b"I":
            found.append(dict(zip(columns, _values(data), strict=True)))
    return found


def _columns(data: bytes) -> list[str]:
    at = data.index(b"\0", data.index(b"\0", 5) + 1) + 2  # behind the schema, the table and its identity
    (count,) = struct.unpack_from(">h", data, at)
    at += 2
    names = []
    for _ in range(count):
        end = data.index(b"\0", at + 1)
        names.append(data[at + 1 : end].decode())
        at = end + 9
    return names


def _values(data: bytes) -> Iterator[str | None]:
    (count,) = struct.unpack_from(">h", data, 6)
    at = 8
    for _ in range(count):
        if data[at : at + 1] == b"n":
            yield None
            at += 1
            continue
        (length,) = struct.unpack_from(">i", data, at + 1)
        yield data[at + 5 : at + 5 + length].decode()
        at += 5 + length
