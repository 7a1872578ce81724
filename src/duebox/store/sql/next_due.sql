-- Seconds until the next delivery to a handler that this process could claim is due, and until the next schedule is; nothing where
-- there is none. A schedule that is due already counts as well: below zero. The work is done by a function of
-- migration 0010, whose plans the server keeps.
SELECT * FROM duebox_next_due(%(subscribers)s::text[], %(now)s::timestamptz)
