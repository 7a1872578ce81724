"""The handler threads of one worker."""

from __future__ import annotations

import logging
import threading
import time

from django.db import connections

from duebox.events.subscribers import Subscriber
from duebox.worker.connections import own_connection
from duebox.worker.handler_thread import HandlerThread, Inbox
from duebox.worker.resources import Resources
from duebox.worker.run_handler import Runner
from duebox.worker.settle import Settler
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import cut

logger = logging.getLogger("duebox.worker")


class HandlerPool:
    def __init__(
        self,
        resources: Resources,
        settler: Settler,
        subscribers: dict[str, Subscriber],
        *,
        threads: int,
        batch: int,
    ) -> None:
        limited = {name for name, each in subscribers.items() if each.limit is not None}
        self.inbox = Inbox(resources.wakeup, limited)
        self.runner = Runner(subscribers, resources)
        self.subscribers = subscribers
        self._resources = resources
        self._settler = settler
        self._batch = batch
        self._handler_threads = [self._new_handler_thread() for _ in range(threads)]
        self._threads = [self._thread_of(each, number) for number, each in enumerate(self._handler_threads)]
        self._abandoned: list[threading.Thread] = []
        self._still_running: list[threading.Thread] = []
        """Left behind at the end, with a handler that cannot be undone."""
        self._finished_before = 0
        """How many claims the threads had taken that were replaced."""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _new_handler_thread(self) -> HandlerThread:
        return HandlerThread(self.inbox, self.runner, self._settler, batch=self._batch)

    def _thread_of(self, handler_thread: HandlerThread, number: int) -> threading.Thread:
        name = f"duebox-handler-{number}"
        return threading.Thread(target=self._work, args=[handler_thread, name], name=name, daemon=True)

    def _work(self, handler_thread: HandlerThread, name: str) -> None:
        using, watchdog = self._resources.using, self._resources.watchdog
        with own_connection(using, watchdog, name, is_lost=handler_thread.is_lost):
            handler_thread.work(connections[using])

    def handler_threads(self) -> list[HandlerThread]:
        return list(self._handler_threads)

    def room(self) -> int:
        """How many more claims can be started soon; 0 while enough of them wait."""
        handler_threads = sum(not each.is_abandoned for each in self._handler_threads)
        # The slowest handler decides; one that has not run yet counts as slow.
        seconds = max(self.runner.durations.values(), default=TUNABLES.claim_ahead_seconds)
        soon = int(handler_threads * TUNABLES.claim_ahead_seconds / max(seconds, 1e-9))
        target = max(handler_threads, min(3 * self._batch, soon))
        queued = self.inbox.waiting() + sum(len(each.running) for each in self._handler_threads)
        return min(self._batch, target - queued) if queued <= target - min(self._batch, target // 2) else 0

    def busy(self) -> bool:
        """Whether a claim that was put into the inbox is not finished yet."""
        return self.inbox.total != self._finished_before + sum(each.finished for each in self._handler_threads)

    def replace(self, handler_thread: HandlerThread) -> None:
        """Start another thread in the place of one whose handler does not end. A process with too many of those that
        hang gets no more of them until some have ended, and should be restarted."""
        if not self._replace(handler_thread):
            logger.error("too many handlers hang, a handler thread is not replaced: abandoned=%d", len(self._abandoned))

    def replace_later(self) -> None:
        """Replace those that were not replaced because too many hang, as soon as some of them have ended."""
        for handler_thread in self.handler_threads():
            if handler_thread.is_abandoned and self._replace(handler_thread):
                self.inbox.thread_is_free()

    def _replace(self, handler_thread: HandlerThread) -> bool:
        index = self._handler_threads.index(handler_thread)
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if self._threads[index].is_alive():
            if len(self._abandoned) >= TUNABLES.abandoned_for_each * len(self._threads):
                return False
            self._abandoned.append(self._threads[index])
        self._handler_threads[index] = self._new_handler_thread()
        self._threads[index] = self._thread_of(self._handler_threads[index], index)
        self._finished_before += handler_thread.finished
        self._threads[index].start()
        return True

    def finish(self, deadline: float) -> None:
        """Release the claims that were not started, and wait for the others until the deadline."""
        self._settler.release(self.inbox.take_all(), "not started")
        for _ in self._threads:
            self.inbox.put_end()
        for thread in self._threads:
            thread.join(min(threading.TIMEOUT_MAX, max(0.0, deadline - time.monotonic())))

    def leave_behind(self, *, lives_on: bool) -> None:
        """Release what has not ended. An atomic handler is rolled back. Another one cannot be undone: it ends with this
        process, or, where the process lives on, in its own time, and must not run anywhere else till then."""
        for handler_thread, thread in zip(self._handler_threads, self._threads, strict=True):
            running, unstarted = handler_thread.leave_behind()
            self._settler.release(unstarted, "not started")
            if running and self.subscribers[running[0].subscriber].atomic:
                cut(handler_thread.connection)
            elif running and lives_on:
                self._still_running.append(thread)
                continue
            self._settler.release(running, "still running at the deadline")

    def is_at_work(self) -> bool:
        """Whether something still runs that was not released."""
        return any(thread.is_alive() for thread in self._still_running)

    def join(self) -> None:
        """Wait for it, however long it takes."""
        for thread in self._still_running:
            thread.join()
