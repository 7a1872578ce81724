-- One replay to a subscriber at a time: whoever asks for the same meanwhile waits, and then finds what was added.
SELECT pg_advisory_xact_lock(hashtextextended('duebox replay ' || %(subscriber)s, 0))
