"""The times, sizes and shares that the worker is tuned with, and what each of them is for.

They are not settings: a project never needs to change one. What a project decides is in `duebox.conf`.
"""

from __future__ import annotations

from dataclasses import dataclass

from duebox.exceptions import A_DAY
from duebox.schedules.fire import BATCH
from duebox.store.schedules import NEAR_SECONDS


@dataclass(frozen=True)
class Tunables:
    # --- Claiming

    # After this many full claims in a row emitters are asked to send no NOTIFY: the worker claims all the time anyway,
    # and a NOTIFY costs the emitting transaction a lock that all commits with a NOTIFY share.
    full_claims_until_busy: int = 20
    # Transactions that began while the worker was busy commit without a NOTIFY. It polls for them for this long after
    # it asked for notifications again, this often.
    poll_after_busy_seconds: float = 1.0
    poll_after_busy_interval_seconds: float = 0.05
    # The heartbeat takes a new lease soon; look this often whether there is one.
    poll_without_lease_seconds: float = 0.1
    # A claim takes no more than the handler threads, or the calls to a destination, can start within this time. Slow
    # handlers must not hold what another worker could run.
    claim_ahead_seconds: float = 0.25
    # Claims start where the last one ended, for this long at most. While an old snapshot is held, a claim from the
    # start of the index reads all dead entries (9,000 instead of 43,000 events/s); but late commits land before the
    # cursor.
    claim_cursor_seconds: float = 1.0
    # A stream is busy if this share of a claim (one in 8 deliveries) only waits behind others of the stream. The next
    # claims leave it out, while up to `busy_stream_chunk` of its deliveries at a time get the status `waiting`; after
    # `busy_stream_seconds` it is claimed again in any case, since more may arrive than can be updated. Without this all
    # other deliveries waited for 3.5 s behind 100,000 events of two streams.
    busy_stream_share: float = 1 / 8
    busy_stream_chunk: int = 500
    busy_stream_seconds: float = 5.0

    # --- Firing schedules

    # While there is always more to claim, look this often for schedules that are due.
    fire_while_busy_seconds: float = 0.05
    # A schedule that is due and was not fired is locked by another transaction. Try again after this time.
    fire_locked_again_seconds: float = 0.02
    # Fire at most this many in a row before deliveries are claimed.
    fire_in_a_row: int = 10 * BATCH
    # A schedule that is stored for the next minute sends a NOTIFY; for later ones a worker must look by itself.
    longest_sleep_seconds: float = NEAR_SECONDS / 2
    # Schedules that are due within this time are read and decided in advance. The worker wakes up this much earlier
    # than the first of them.
    prepare_seconds: float = 1.0
    wake_to_prepare_seconds: float = 0.05
    # This many are prepared at a time: 25 rows take about 1 ms, which fits between two schedules that are 5 ms apart.
    # The small slice is used while a prepared schedule is due within `hurry_seconds`; the large one takes about 20 ms.
    prepare_slice: int = 25
    prepare_large_slice: int = 500
    hurry_seconds: float = 0.05
    # At most this many are prepared, at about 2 kB each. Those beyond them are read and decided when they are due.
    prepared_at_most: int = 10_000
    # Schedules that came due this long ago, while the worker was busy, are prepared too and fire at once. Those that
    # are later fire with a statement that also asks how late they are.
    prepare_late_seconds: float = 0.25
    # One statement fires at most this many prepared schedules, so that the first handlers start while the others are
    # stored.
    fire_prepared_at_most: int = 500
    # Looking for the next schedule, or preparing it, takes 1 to 2 ms. It is put off while a prepared one is due sooner
    # than this, but no longer than `put_off_at_most_seconds`.
    put_off_seconds: float = 0.003
    put_off_at_most_seconds: float = 0.1

    # --- Handlers with a limit

    # How often to look while no NOTIFY arrives; also for destinations.
    poll_without_notify_seconds: float = 0.05
    # After the worker asked for notifications, transactions that began before may commit without one for this long.
    notify_delay_seconds: float = 1.0
    # Where the rate allowed nothing more, look again when there may be a token: not sooner and not later than this.
    shortest_wait_for_token_seconds: float = 0.02
    longest_wait_for_token_seconds: float = 1.0
    # Without a limit on the concurrency, a claim takes at most the tokens of this time.
    tokens_ahead_seconds: float = 0.1

    # --- Handler threads

    # Outcomes of handlers that are not atomic are written together, in one transaction: this many, or those of this
    # time. If the worker is lost before that, these handlers run again.
    settle_at_most: int = 250
    settle_within_seconds: float = 0.025
    # This many quick atomic handlers, or those of this time, share a transaction. One commit each: 1,200 deliveries/s.
    group_at_most: int = 50
    group_within_seconds: float = 0.030
    # A handler is quick if its mean duration is below this.
    quick_handler_seconds: float = 0.020
    # The mean duration of a handler moves to that of the last runs with a weight of one 50th for each of them, within
    # these limits: one slow run does not make a handler slow, and one group does not make all earlier runs forgotten.
    duration_runs: int = 50
    duration_least_weight: float = 0.05
    duration_most_weight: float = 0.5
    # After a group was rolled back, its handlers run alone for this long.
    ungrouped_seconds: float = 10.0
    # A handler thread pauses for this long after an error of its own, so that it does not fail in a tight loop.
    thread_error_seconds: float = 1.0
    # At most this many abandoned threads for each that works; each holds memory and a connection.
    abandoned_for_each: int = 4
    # How often to look for slow handlers, at least; and how often at most where timeouts are shorter.
    timeout_tick_seconds: float = 0.25
    shortest_timeout_tick_seconds: float = 0.02
    # A handler that was interrupted has this long to come back by itself.
    timeout_grace_seconds: float = 1.0
    # A delivery that failed because its connection was lost runs again after this time.
    lost_connection_retry_seconds: float = 1.0
    # An outcome that cannot be stored is replaced by a retry after this time.
    unwritable_retry_seconds: float = 60.0
    # An event in a version newer than the code waits a tenth of its age, within these limits; after a day it fails,
    # since no deployment takes longer. The wait is spread by ±10 %, for events that came together. It is logged this
    # often.
    newer_code_share: float = 0.1
    newer_code_spread: float = 0.1
    newer_code_shortest_seconds: float = 10.0
    newer_code_longest_seconds: float = 600.0
    newer_code_give_up_seconds: float = A_DAY
    newer_code_log_seconds: float = 60.0

    # --- The lease

    # Heartbeats in the time of a lease, so that a few of them may fail before it is lost.
    beats_per_lease: int = 4
    # With each 12th heartbeat, every 30 s with the default lease, also look for deliveries whose lease has no row any
    # more.
    beats_per_full_rescue: int = 12
    # A heartbeat waits for its answer for this share of the lease, so that there is time for a second connection if the
    # first one does not answer; but at least this long.
    heartbeat_answer_share: float = 1 / 3
    shortest_heartbeat_seconds: float = 1.0
    # After the first heartbeat that failed the next one follows after this share of the interval: if only the
    # connection was lost, the lease can still be renewed.
    failed_beat_share: float = 1 / 4
    # If the worker's own heartbeat was not received for this many intervals, notifications do not arrive. Try again
    # after this time.
    missed_heartbeats: float = 2.5
    listen_again_seconds: float = 30.0

    # --- The database

    # The waits between tries after database errors: a restart or a fail-over of PostgreSQL takes a few seconds.
    retry_waits: tuple[float, ...] = (1.0, 2.0, 4.0)
    # One of the engine's own statements may take this long. Those of handlers have no such limit.
    statement_seconds: float = 30.0
    # The server ends the engine's own transactions after this long without a statement: the process is frozen.
    idle_in_transaction_seconds: float = 60.0
    # A reading of the gauges takes no longer than this; otherwise the database counts as out of reach.
    gauges_seconds: float = 5.0
    # How often to look for waits that take too long.
    watchdog_tick_seconds: float = 0.25
    # For the answer of the server to a request to cancel a statement.
    cancel_seconds: float = 2.0

    # --- Background threads

    # How often to look for changed rows where no NOTIFY arrives: behind a pooler, or while the worker is busy.
    row_changes_poll_seconds: float = 1.0
    # Maintenance at the start failed, after the waits above; try again after this time.
    maintenance_retry_seconds: float = 60.0
    # Remove the audit log's rows about ended sessions this often.
    forget_writers_seconds: float = 60.0
    # A changed head of the audit log needs an operator; look again after this time.
    changed_head_seconds: float = 60.0
    # Workers count the last minute at different moments, within this time.
    rollup_spread_seconds: float = 5.0
    # Old rows are removed this often. A run continues where the last one ended; once a day it starts with the oldest
    # row, since what was still open then may be done.
    prune_seconds: float = 3600.0
    prune_from_oldest_seconds: float = 24 * 3600.0
    # The first run begins after one to two times this, at random: workers that start together do not all begin at once.
    first_prune_seconds: float = 60.0

    # --- Health

    # A turn of the loop may take this long beyond POLL_SECONDS. It is twice what one of its statements may take.
    live_seconds: float = 60.0
    # For one request to the health port.
    health_request_seconds: float = 5.0

    # --- Stopping

    # While the loop waits after a database error, it looks this often whether it was stopped.
    look_for_stop_seconds: float = 0.1
    # The statement that the loop waits for gets this long when the worker stops.
    stop_statement_seconds: float = 2.0
    # The background threads together get this long; then they are left behind.
    stop_background_seconds: float = 3.0
    # Of that, audit entries are still sealed for this long; and a run that ends because nothing is due counts the
    # minutes that are not counted yet for this long.
    stop_seal_seconds: float = 2.5
    stop_rollup_seconds: float = 2.0
    # A run with a deadline keeps this share of its time for running handlers, and this much, or this share if that is
    # less, for the rest of the shutdown.
    deadline_grace_share: float = 0.5
    deadline_spare_seconds: float = 1.0
    deadline_spare_share: float = 0.1
    # A process that outlives SHUTDOWN_SECONDS by this much is ended: releasing deliveries and closing destinations take
    # no longer.
    exit_spare_seconds: float = 4.0
    # The supervisor kills a process that outlives SHUTDOWN_SECONDS by this much: it should have ended itself by then.
    kill_child_seconds: float = 5.0
    # A service manager may signal the whole process group, so a child gets the same signal from its supervisor as well.
    # Only a signal after this time counts as a second one.
    same_signal_seconds: float = 1.0
    # How often the supervisor looks for ended processes, and so the shortest time before one is started again.
    restart_seconds: float = 1.0

    # --- Inline mode and tests

    # The lease of a drain, which has no heartbeat thread: it is renewed between two claims, this many times in its
    # time.
    drain_lease_seconds: float = 300.0
    drain_renewals: int = 10
    # A drain claims this many at a time and delivers them one after the other. If it ends early, it releases the rest.
    drain_batch: int = 100

    # --- Destinations

    # While calls are running, wait this long for more of them to end: their outcomes are written together.
    gather_seconds: float = 0.02
    # Ask this often whether a destination with waiting events was paused elsewhere.
    look_for_pauses_seconds: float = 0.25
    # An answer with more destinations than this serves several rounds: for 20,000 endpoints with something to deliver
    # the query alone takes a quarter of a second.
    destination_slice: int = 500
    # At most this many destinations that are slow, or unknown, have waiting events; another worker can take the others.
    slow_destinations_at_most: int = 200
    # A destination is slow if a call takes longer than this, on average or at this moment.
    slow_destination_seconds: float = 1.0
    # The mean duration of a call moves to that of the last call with this weight: about five calls decide.
    call_duration_weight: float = 0.2
    # Of the sender threads, at most these shares (in eighths) call slow destinations, and slow and unknown ones
    # together. So slow ones, however many there are, leave three eighths to those that have not answered yet, and both
    # leave a quarter to those that answer quickly.
    slow_threads_eighths: int = 3
    slow_or_unknown_threads_eighths: int = 6
    # At most this many events of a destination wait in this worker.
    waiting_at_most: int = 500
    # With a rate, at most the tokens of this time are claimed: events that wait here would be sent in a burst.
    destination_tokens_seconds: float = 0.1
    # Where the rate allowed nothing more, look again after the time of one token, but not sooner than this.
    shortest_wait_for_rate_seconds: float = 0.02
    # The mean durations of this many destinations that have nothing to do are remembered; beyond that the oldest is
    # forgotten and counts as unknown. It bounds the memory, and is the number of endpoints that was measured above.
    remembered_destinations: int = 20_000
    # A destination that cannot be created is logged this often.
    log_broken_destination_seconds: float = 60.0
    # A sender thread ends after this long without a call.
    idle_sender_thread_seconds: float = 30.0
    # While a destination fails, that is stored this often. A failure later than `failing_gap` times the longest wait
    # between retries begins a new period of failures: until then the next attempt of one single event may still come.
    store_failing_seconds: float = 60.0
    failing_gap: float = 1.5
    # Other workers wait this long for the one that tries a paused destination, in case it never reports.
    probe_seconds: float = 60.0
    # A probe without a result is repeated after this time.
    probe_again_seconds: float = 1.0
    # The oldest events of an ordered destination may wait behind others; this many are claimed to find one to try.
    probe_claims: int = 20


TUNABLES = Tunables()
