-- Lock events that are to be removed, except those that another transaction has locked, as to deliver them again.
SELECT id::text FROM duebox_event WHERE id = ANY(%(id)s::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED
