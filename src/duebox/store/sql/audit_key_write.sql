INSERT INTO duebox_audit_key (purpose, inner_pad, outer_pad)
VALUES (%(purpose)s, decode(%(inner)s, 'hex'), decode(%(outer)s, 'hex'))
ON CONFLICT (purpose) DO UPDATE SET inner_pad = excluded.inner_pad, outer_pad = excluded.outer_pad
WHERE duebox_audit_key.inner_pad <> excluded.inner_pad
