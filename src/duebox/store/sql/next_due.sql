-- Seconds until the next delivery to a handler that this process could claim is due, and until the next schedule is;
-- NULL if there is none. For a schedule that is due already it is negative. The work is done by a function, whose plans
-- the server keeps.
SELECT * FROM duebox_next_due(%(subscribers)s::text[], %(now)s::timestamptz)
