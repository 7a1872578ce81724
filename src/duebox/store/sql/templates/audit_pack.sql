WITH packed AS (
                INSERT INTO {schema}.duebox_audit_batch (
                    recorded_at, actor, impersonator, correlation_id, ip, user_agent, metadata, writer, writer_number,
                    ids, organizations, actions, entity_types, entity_ids, changes
                )
                SELECT moment, context_actor, context_impersonator, context_correlation_id, context_ip,
                       context_user_agent, recorded.metadata, session_writer, last_number + min(entry.position),
                       array_agg(nextval(id_sequence)),
                       array_agg(coalesce(nullif(left(entry.organization, 500), ''), context_organization)),
                       array_agg(entry.action), array_agg(entry.type),
                       array_agg(coalesce(nullif(left(entry.id, 500), ''), '*')),
                       array_agg(('{{' || entry.changes || '}}')::jsonb)
                FROM (
                    SELECT found.*, row_number() OVER before AS position,
                           sum(octet_length(found.changes)) OVER before AS bytes
                    FROM (
            {found}) AS found
                    WINDOW before AS (ROWS UNBOUNDED PRECEDING)
                ) AS entry
                GROUP BY (entry.position - 1) / {many}, entry.bytes / {bytes}
                RETURNING cardinality(ids) AS size
            )
            SELECT coalesce(sum(packed.size), 0) INTO entries FROM packed;
