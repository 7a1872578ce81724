"""All SQL: one statement or database object per file in `sql/`, and the functions that run them.

run_sql         run a statement of `sql/`, in the caller's transaction
attempts        the history as it grows
audit           audit entries and the chain of their seals
database_state  what the server says about the tables, and how they should be
deliveries      claim, settle and release deliveries; backlog, blocked streams
destinations    claims, rates and circuit breakers of destinations; webhook fan-out
erasure         remove payloads and texts of one entity
leases          worker leases, and rescue of what lost workers held
rollup          counts per minute and hour
row_changes     row changes that triggers noted, and the triggers
audit_triggers  the triggers that write audit entries: rows, or batches for large statements
schedules       due schedules, the schedule log
schema          functions, triggers, views and indexes besides the tables
sweeps          find and stamp the rows of a sweep
targets         handlers, destinations and event types as people write them
operations      find, retry, park and discard deliveries
replay          send stored events again
retention       remove old rows in short batches

The name of a statement in `sql/` begins with what it is about. Some prefixes need an explanation:

- `destination_*`: deliveries to destinations, and the state of a destination that all workers share
  (`duebox_destination_state`); `breaker_*` are its circuit breaker, `rate_bucket_*` its rate limit and that of handlers
- `sent_task_*`: Celery tasks that were sent and have not reported their result yet (`duebox_sent_task`)
- `stream_*`: deliveries of ordered subscribers that wait for an earlier delivery of the same stream
- `capture_*`: triggers on the tables of a project
- `lease_*`: workers and their leases
- `session_*`: sessions of the database server
- `templates/`: triggers on the tables of a project, filled in by `row_changes` and `audit_triggers`
"""

from __future__ import annotations
