-- There was no event to try it with.
UPDATE duebox_destination_state SET open_until = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE name = %(name)s AND open_until IS NOT NULL
