-- One replay to a subscriber at a time: a concurrent one waits, and then finds the added deliveries.
SELECT pg_advisory_xact_lock(hashtextextended('duebox replay ' || %(subscriber)s, 0))
