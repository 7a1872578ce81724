-- Which of these are paused or left alone, for whoever holds events for them. Where the whole is paused, its parts are.
SELECT held.name
FROM unnest(%(name)s::text[]) AS held (name)
WHERE EXISTS (
    SELECT FROM duebox_destination_state gate
    WHERE gate.name = held.name AND (gate.paused_at IS NOT NULL OR gate.open_until > statement_timestamp())
) OR EXISTS (
    SELECT FROM duebox_destination_state whole WHERE whole.name = split_part(held.name, '/', 1) AND whole.paused_at IS NOT NULL
)
