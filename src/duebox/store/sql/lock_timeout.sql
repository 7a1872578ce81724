-- Set the lock timeout until the transaction ends. Returns the previous value.
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(timeout)s, true)
