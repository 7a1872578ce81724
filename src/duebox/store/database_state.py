"""What the server says about itself and about the tables of Duebox, and how the tables should be."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from django.db import connections

from duebox.store.run_sql import run, text_array

PARAMETERS: dict[str, dict[str, str]] = {
    "duebox_delivery": {
        "fillfactor": "50",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_cost_limit": "2000",
        "autovacuum_vacuum_cost_delay": "1",
        "autovacuum_analyze_scale_factor": "0.05",
    },
    "duebox_worker": {
        "fillfactor": "50", "autovacuum_vacuum_scale_factor": "0", "autovacuum_vacuum_threshold": "100",
    },
    "duebox_schedule": {
        "fillfactor": "80", "autovacuum_vacuum_scale_factor": "0.05", "autovacuum_analyze_scale_factor": "0.05",
    },
    "duebox_row_change": {
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_cost_limit": "2000",
        "autovacuum_vacuum_cost_delay": "1",
    },
    "duebox_attempt": {"autovacuum_vacuum_insert_scale_factor": "0.05"},
    "duebox_event": {"autovacuum_vacuum_insert_scale_factor": "0.05"},
    "duebox_schedule_log": {"autovacuum_vacuum_insert_scale_factor": "0.05"},
    "duebox_audit": {"autovacuum_vacuum_insert_scale_factor": "0.05"},
    "duebox_audit_batch": {"autovacuum_vacuum_scale_factor": "0", "autovacuum_vacuum_threshold": "100"},
    "duebox_audit_writer": {"fillfactor": "50"},
    "duebox_audit_writer_sealed": {"fillfactor": "50"},
}  # fmt: skip
"""The storage parameters that the migrations set."""
TRIGGERS = {
    "duebox_event": {"duebox_event_is_immutable"},
    "duebox_attempt": {"duebox_attempt_is_append_only"},
    "duebox_schedule_log": {"duebox_schedule_log_is_append_only"},
    "duebox_audit": {"duebox_audit_is_append_only", "duebox_audit_leaves_by_age"},
    "duebox_audit_batch": {"duebox_audit_batch_is_append_only", "duebox_audit_batch_leaves_unpacked"},
    "duebox_audit_seal": {"duebox_audit_seal_is_append_only", "duebox_audit_seal_leaves_by_age"},
    "duebox_audit_head": {"duebox_audit_head_stays"},
}
"""The triggers that the migrations make on the tables of Duebox."""


class Server(NamedTuple):
    """In the order of doctor_server.sql, and how far the clocks are apart."""

    version: str
    number: int
    backend_pid: int
    now: float
    autovacuum: bool
    longest_pid: int | None
    longest_seconds: float | None
    longest_application: str | None
    oldest_holder: str | None
    oldest_age: int | None
    skew_seconds: float = 0.0
    """The database's clock minus the one of this host."""
    is_pooled: bool = False
    """Whether statements go through a pooler in transaction mode: the client knows another process id."""


class TableState(NamedTuple):
    name: str
    parameters: dict[str, str]
    live: int
    dead: int
    invalid_indexes: list[str]
    triggers: set[str]


def server(using: str) -> Server:
    run("database_time", using, {})  # so that the next answer is not late by the making of the connection
    asked_at = time.time()
    [row] = run("doctor_server", using, {})
    found = Server(*row)
    here = (asked_at + time.time()) / 2
    client_pid = connections[using].connection.info.backend_pid
    return found._replace(skew_seconds=found.now - here, is_pooled=found.backend_pid != client_pid)


def tables(using: str) -> list[TableState]:
    rows = run("doctor_tables", using, {"table": text_array(sorted(PARAMETERS.keys() | TRIGGERS.keys()))})
    return [
        TableState(name, dict(each.split("=", 1) for each in options), live, dead, list(indexes), set(triggers))
        for name, options, live, dead, indexes, triggers in rows
    ]


def set_parameters(table: str, parameters: dict[str, str]) -> str:
    """The statement that a person runs to set storage parameters."""
    return f"ALTER TABLE {table} SET ({', '.join(f'{name} = {value}' for name, value in parameters.items())})"


class ServerFacts(NamedTuple):
    """From the statistics of the server, in the order of advise_facts.sql."""

    tables: list[dict[str, Any]]
    scheduled_estimate: int | None
    oldest_transaction_seconds: float | None
    """Of the transactions that keep old rows from being removed. Those of other roles are seen only with the right to
    read all statistics."""
    oldest_transaction_pid: int | None
    oldest_transaction_application: str | None
    notify_queue_share: float


def server_facts(using: str) -> ServerFacts:
    return ServerFacts(*run("advise_facts", using, {})[0])


def scheduled(using: str, most: int) -> int:
    """The number of scheduled schedules, counted up to `most`."""
    return int(run("advise_scheduled", using, {"most": most})[0][0])
