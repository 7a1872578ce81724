-- Give back what was claimed and not worked on: no attempt is burned, no history written.
UPDATE duebox_delivery SET lease = NULL
WHERE id = ANY(%(id)s) AND lease = %(lease)s
