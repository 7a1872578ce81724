-- Until the transaction ends, no lock of others is waited for longer than this.
SELECT set_config('lock_timeout', %(milliseconds)s::text, true)
