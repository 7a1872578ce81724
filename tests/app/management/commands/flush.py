from __future__ import annotations

from typing import Any

from django.core.management.commands import flush
from django.db import connections

NOT_EMPTIED = {"django_migrations", "duebox_audit_key"}
"""What `migrate` has written."""
SMALL = 256 * 1024
"""Bytes, with indexes. A larger table is truncated in any case: dead rows influence the plans of later queries."""


class Command(flush.Command):
    help = (
        "In the place of Django's command, which runs after every test that commits: it truncates only the tables that "
        "have rows, and installs nothing anew."
    )

    def handle(self, **options: Any) -> None:
        connection = connections[options["database"]]
        tables = sorted({*connection.introspection.django_table_names(only_existing=True)} - NOT_EMPTIED)
        quoted = [connection.ops.quote_name(each) for each in tables]
        with connection.cursor() as cursor:
            filled = [f"EXISTS (SELECT FROM {each}) OR pg_total_relation_size('{each}') > {SMALL}" for each in quoted]
            cursor.execute(f"SELECT {', '.join(filled)}")
            names = [table for table, is_filled in zip(quoted, cursor.fetchone(), strict=True) if is_filled]
            if names:
                # As a replica: no trigger asks about it.
                cursor.execute(
                    f"SET session_replication_role = replica; TRUNCATE {', '.join(names)} CASCADE; "
                    "RESET session_replication_role"
                )
