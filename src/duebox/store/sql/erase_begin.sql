-- Allow changes of events, attempts and audit entries until the transaction ends or the setting is restored. Returns
-- the previous setting.
SELECT coalesce(current_setting('duebox.allows', true), ''), set_config('duebox.allows', %(allows)s, true)
