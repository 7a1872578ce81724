-- Which of these are paused or have an open circuit breaker. If a destination is paused, its endpoints are.
SELECT held.name
FROM unnest(%(name)s::text[]) AS held (name)
WHERE EXISTS (
    SELECT FROM duebox_destination_state gate
    WHERE gate.name = held.name AND (gate.paused_at IS NOT NULL OR gate.open_until > statement_timestamp())
) OR EXISTS (
    SELECT FROM duebox_destination_state whole WHERE whole.name = split_part(held.name, '/', 1) AND whole.paused_at IS NOT NULL
)
