-- Hold the heads of some organizations until commit, and give each entry its id, its place and the moment.
-- The JSON comes back as the table will give it back, so that it can be hashed before it is stored.
-- Heads that are missing are made by the function of migration 0004, which takes all of them in the order given.
WITH head AS MATERIALIZED (
    SELECT *, coalesce(%(now)s::timestamptz, clock_timestamp()) AS moment
    FROM duebox_audit_open(%(heads)s::text[])
)
SELECT nextval(pg_get_serial_sequence('duebox_audit', 'id')), (extract(epoch FROM head.moment) * 1000000)::bigint,
       entry.changes::jsonb::text, entry.metadata::jsonb::text,
       head.organization, coalesce(head.sequence, 0), coalesce(head.hash, ''), coalesce(head.pruned_sequence, 0),
       coalesce(head.pruned_hash, ''), coalesce(head.seal, '')
FROM unnest(%(organization)s::text[], %(changes)s::text[], %(metadata)s::text[])
     WITH ORDINALITY AS entry (organization, changes, metadata, position)
JOIN head ON head.organization = entry.organization
ORDER BY entry.position
