"""The worker: fire, claim, run, settle.

tunables            all times, sizes and shares, each with its reason
watchdog            end waits on dead connections
connections         database connections of the threads
wakeup              how the threads wake each other
lease               the lease, renewed by a heartbeat
resources           what the threads have in common
measure             metrics of settled deliveries
settle              write outcomes, and what follows from them
health              liveness and readiness, over HTTP too
run_handler         call handlers, one by one or many in a transaction
handler_thread      one handler thread, and the inbox that it takes claims from
handler_pool        the handler threads
background_threads  seal the audit log, plan changed rows, count minutes, remove old rows
maintenance         the schedules of the engine itself
listener            NOTIFY wakes the worker
timeouts            handlers that take too long
scheduler           fire schedules; prepare those that are due soon
claimer             claim deliveries for handlers
limited_handlers    claim deliveries for handlers with a limit
senders/            deliveries to destinations, in threads of their own
worker              the loop, what a worker consists of, and its shutdown
supervisor          worker processes and signals
drain               deliver in this thread, for inline mode and tests
"""

from __future__ import annotations
