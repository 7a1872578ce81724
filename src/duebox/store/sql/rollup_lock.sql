-- Whether this transaction is the one that rolls up now. Another worker does not wait for it.
SELECT pg_try_advisory_xact_lock(hashtextextended('duebox rollup', 0))
