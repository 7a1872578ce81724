-- The pause is over: one worker tries one event, and the others wait for the result.
UPDATE duebox_destination_state SET open_until = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE name = ANY(%(name)s) AND open_until <= statement_timestamp()
RETURNING name
