"""The audit log: entries in a chain per organization, the heads of the chains, and what keeps both from being changed."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models.fields.json import KT

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

# A head is updated with every entry of its organization; the room on the page keeps those updates off the index.
STORAGE = """
ALTER TABLE duebox_audit_head SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000
);
ALTER TABLE duebox_audit SET (autovacuum_vacuum_insert_scale_factor = 0.05);
"""

# Heads are taken one by one in the order given, so that two callers who give theirs in the same order do not deadlock.
# In a function each look is as fresh as can be: a head that somebody else makes meanwhile is found the second time.
# One that nobody makes, of an organization with entries, was there before: a new one would begin a second chain.
OPEN = """
CREATE FUNCTION duebox_audit_open(wanted text[]) RETURNS SETOF duebox_audit_head LANGUAGE plpgsql AS $$
DECLARE
    name text;
    head duebox_audit_head;
BEGIN
    FOREACH name IN ARRAY wanted LOOP
        SELECT * INTO head FROM duebox_audit_head WHERE organization = name FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO duebox_audit_head (organization) VALUES (name) ON CONFLICT (organization) DO NOTHING;
            IF FOUND AND EXISTS (SELECT FROM duebox_audit WHERE organization = name) THEN
                RAISE EXCEPTION 'The head of organization % is gone from duebox_audit_head, though duebox_audit has '
                    'entries of it, so nothing can be added; run `manage.py duebox audit verify`, then put the row back '
                    'as docs/howto/audit.md says under "A head that is gone".', quote_literal(name)
                    USING ERRCODE = 'object_not_in_prerequisite_state';
            END IF;
            SELECT * INTO head FROM duebox_audit_head WHERE organization = name FOR UPDATE;
        END IF;
        RETURN NEXT head;
    END LOOP;
END $$;
"""

# A test may empty its database: Django does that with TRUNCATE, and Duebox sets the option in test runs.
APPEND_ONLY = """
CREATE FUNCTION duebox_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' AND current_setting('duebox.audit_allows', true) = 'truncate' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only, so % is refused; %.', TG_TABLE_NAME, TG_OP, CASE TG_OP
            WHEN 'UPDATE' THEN 'write another entry with duebox.audit() that puts it right'
            WHEN 'DELETE' THEN 'entries leave by age, with: manage.py duebox audit prune'
            ELSE 'where nothing is worth keeping, first run: SET duebox.audit_allows = ''truncate''' END
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION duebox_audit_refuse_unpruned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM gone LEFT JOIN duebox_audit_head AS head ON head.organization = gone.organization
        WHERE head.organization IS NULL OR gone.sequence > head.pruned_sequence
    ) THEN
        RAISE EXCEPTION
            'duebox_audit is append-only, so DELETE is refused; entries leave by age, with: manage.py duebox audit prune.'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER duebox_audit_is_append_only BEFORE UPDATE OR TRUNCATE ON duebox_audit
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse();
CREATE TRIGGER duebox_audit_leaves_by_age AFTER DELETE ON duebox_audit
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse_unpruned();
CREATE TRIGGER duebox_audit_head_stays BEFORE DELETE OR TRUNCATE ON duebox_audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse();
"""

UNDO = """
DROP TRIGGER duebox_audit_is_append_only ON duebox_audit;
DROP TRIGGER duebox_audit_leaves_by_age ON duebox_audit;
DROP TRIGGER duebox_audit_head_stays ON duebox_audit_head;
DROP FUNCTION duebox_audit_refuse();
DROP FUNCTION duebox_audit_refuse_unpruned();
DROP FUNCTION duebox_audit_open(text[]);
"""


class Migration(migrations.Migration):
    dependencies = [("duebox", "0003_schedules")]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("organization", models.TextField(db_default="")),
                ("sequence", models.BigIntegerField()),
                ("recorded_at", models.DateTimeField()),
                ("action", models.TextField()),
                ("entity_type", models.TextField()),
                ("entity_id", models.TextField()),
                ("actor", models.JSONField(null=True)),
                ("impersonator", models.JSONField(null=True)),
                ("correlation_id", models.TextField(db_default="")),
                ("ip", models.TextField(db_default="")),
                ("user_agent", models.TextField(db_default="")),
                ("changes", models.JSONField(default=dict)),
                ("metadata", models.JSONField(default=dict)),
                ("previous_hash", models.BinaryField()),
                ("hash", models.BinaryField()),
            ],
            options={
                "db_table": "duebox_audit",
                "indexes": [
                    models.Index(fields=["entity_type", "entity_id", "id"], name="duebox_audit_about"),
                    models.Index(
                        KT("actor__id"),
                        models.F("id"),
                        condition=models.Q(("actor__isnull", False)),
                        name="duebox_audit_by_actor",
                    ),
                    models.Index(
                        KT("impersonator__id"),
                        models.F("id"),
                        condition=models.Q(("impersonator__isnull", False)),
                        name="duebox_audit_by_impersonator",
                    ),
                    models.Index(
                        fields=["organization", "recorded_at", "sequence"], name="duebox_audit_of_organization"
                    ),
                    models.Index(fields=["recorded_at"], name="duebox_audit_between"),
                    models.Index(fields=["action", "id"], name="duebox_audit_doing"),
                    models.Index(
                        condition=models.Q(("correlation_id", ""), _negated=True),
                        fields=["correlation_id"],
                        name="duebox_audit_correlated",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("organization", "sequence"), name="duebox_audit_one_chain"),
                    models.CheckConstraint(
                        condition=models.Q(("sequence__gte", 1)), name="duebox_audit_counts_from_one"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("action", ""), _negated=True),
                            models.Q(("entity_type", ""), _negated=True),
                            models.Q(("entity_id", ""), _negated=True),
                        ),
                        name="duebox_audit_has_names",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("organization", models.TextField()),
                ("sequence", models.BigIntegerField(db_default=0)),
                ("hash", models.BinaryField(db_default=bytes(32))),
                ("pruned_sequence", models.BigIntegerField(db_default=0)),
                ("pruned_hash", models.BinaryField(db_default=bytes(32))),
                ("seal", models.BinaryField(db_default=b"")),
            ],
            options={
                "db_table": "duebox_audit_head",
                "constraints": [
                    models.UniqueConstraint(fields=("organization",), name="duebox_audit_head_one_each"),
                    models.CheckConstraint(
                        condition=models.Q(("pruned_sequence__gte", 0), ("sequence__gte", models.F("pruned_sequence"))),
                        name="duebox_audit_head_ends_after_its_beginning",
                    ),
                ],
            },
        ),
        PostgresOnly(STORAGE + OPEN + APPEND_ONLY, UNDO),
    ]
