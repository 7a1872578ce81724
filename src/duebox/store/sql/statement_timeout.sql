-- Set the statement timeout until the transaction ends. Returns the previous value.
SELECT current_setting('statement_timeout'), set_config('statement_timeout', %(timeout)s, true)
