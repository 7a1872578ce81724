-- Settings for one batch: payloads may be removed, and the commit does not wait for the disk, since rows that a crash
-- restores are removed later. Returns both previous settings, the isolation level, and whether no other process removes
-- rows at this moment.
SELECT before.allows, before.synchronous_commit, current_setting('transaction_isolation'),
       pg_try_advisory_xact_lock(hashtextextended('duebox retention', 0)),
       set_config('synchronous_commit', 'off', true), set_config('duebox.allows', 'erase', true)
FROM (
    SELECT coalesce(current_setting('duebox.allows', true), '') AS allows,
           current_setting('synchronous_commit') AS synchronous_commit
    OFFSET 0
) AS before
