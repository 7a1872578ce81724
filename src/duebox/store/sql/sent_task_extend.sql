-- A task is retried by Celery: its time limit starts again with its next run.
UPDATE duebox_sent_task
SET expires_at = coalesce(%(now)s::timestamptz, statement_timestamp()) + %(after)s * interval '1 second'
                 + (expires_at - sent_at),
    sent_at = coalesce(%(now)s::timestamptz, statement_timestamp()) + %(after)s * interval '1 second'
WHERE task_id = %(task_id)s AND task = %(task)s AND ended_at IS NULL
