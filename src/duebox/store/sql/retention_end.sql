-- After one batch within a transaction of the caller: settings as they were before it.
SELECT set_config('duebox.allows', %(allows)s, true), set_config('synchronous_commit', %(synchronous_commit)s, true)
