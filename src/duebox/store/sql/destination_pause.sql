INSERT INTO duebox_destination_state (name, paused_at, paused_note) VALUES (%(name)s, statement_timestamp(), %(note)s)
ON CONFLICT (name) DO UPDATE SET paused_at = statement_timestamp(), paused_note = excluded.paused_note,
    changed_at = statement_timestamp()
