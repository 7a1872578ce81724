-- Which of these are paused or have an open circuit breaker. If a destination is paused, its endpoints are.
SELECT held.name
FROM unnest(%(name)s::text[]) AS held (name)
WHERE EXISTS (
    SELECT FROM duebox_destination_state state
    WHERE state.name = held.name AND (state.paused_at IS NOT NULL OR state.open_until > statement_timestamp())
) OR EXISTS (
    SELECT FROM duebox_destination_state whole WHERE whole.name = split_part(held.name, '/', 1) AND whole.paused_at IS NOT NULL
)
