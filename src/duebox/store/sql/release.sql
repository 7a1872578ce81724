-- Release claimed deliveries that did not run: no attempt is used up, no history is written.
UPDATE duebox_delivery SET lease = NULL
WHERE id = ANY(%(id)s) AND lease = %(lease)s
