-- Until the transaction ends, no lock of others is waited for longer than this. Gives how long it was before.
SELECT current_setting('lock_timeout'), set_config('lock_timeout', %(timeout)s, true)
