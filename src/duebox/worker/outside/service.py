"""The thread between the database and the couriers: settles what ended, claims what there is room for, sleeps."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty

from django.db import DatabaseError, InterfaceError

from duebox import clock
from duebox.conf import conf
from duebox.destinations.subscription import Subscription
from duebox.store import gates
from duebox.store.deliveries import Claim, Ended
from duebox.store.outside import Ready
from duebox.worker.crew import Crew
from duebox.worker.outside.claiming import Claiming
from duebox.worker.outside.couriers import Couriers, Done
from duebox.worker.outside.desk import Desk
from duebox.worker.outside.desks import Desks
from duebox.worker.outside.health import judge
from duebox.worker.outside.looking import Looking
from duebox.worker.patience import WAITS, patiently
from duebox.worker.sessions import own_connection
from duebox.worker.settling import settle
from duebox.worker.tidy import close_connections, tidy_connections
from duebox.worker.watchdog import limited

logger = logging.getLogger("duebox.worker")

# While events are on their way, so long is waited for more of them to end: they are settled together.
GATHER_SECONDS = 0.02
DEAF_POLL_SECONDS = 0.05
SURE_SECONDS = 1.0
SHUT_SECONDS = 0.25


def outside_of(crew: Crew, poll: float, hears: Callable[[], bool]) -> Outside | None:
    """For the destinations among the subscribers of a worker; None where there are none."""
    destinations = {each.alias: each for each in crew.subscribers.values() if isinstance(each, Subscription)}
    return Outside(crew, destinations, conf().DESTINATION_THREADS, poll, hears) if destinations else None


class Outside:
    def __init__(
        self, crew: Crew, subscriptions: dict[str, Subscription], couriers: int, poll: float, hears: Callable[[], bool]
    ) -> None:
        self._rounds = 0
        """How often it has looked and found nothing to do."""
        self._claimed = 0
        self._asked: tuple[int, int] | None = None
        self._crew = crew
        self._poll_seconds = poll
        self._hears = hears
        self._heard_since = float("inf")
        self._wake = threading.Event()
        self._couriers = Couriers(crew, couriers, self._wake.set)
        self._desks = Desks(crew.using, subscriptions)
        self._looking = Looking(crew.using)
        self._claiming = Claiming(crew, self._desks)
        self._shut_at = 0.0
        self._errors = 0
        self._stopping = False
        self._is_left = False
        self._thread = threading.Thread(target=self._run, name="duebox-outside", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def busy(self) -> bool:
        return self._couriers.busy()

    def settled_down(self) -> bool:
        """Whether nothing was done, here or by handlers, since this was asked first: two looks later, since one may
        have begun before."""
        done = self._claimed + self._crew.taken()
        rounds, before = self._asked or (self._rounds, -1)
        if done == before and self._rounds >= rounds + 2 and not self.busy():
            return True
        if done != before:
            self._asked = (self._rounds, done)
        self._wake.set()
        return False

    def stop(self) -> None:
        """Nothing more is claimed or started."""
        self._stopping = True
        self._crew.give_back(self._couriers.stop(), "not started")
        self._wake.set()

    def finish(self, deadline: float, *, lives_on: bool) -> None:
        """Let what is on its way end, and give back what does not end in time; where the process lives on it arrives
        all the same, and is not sent by anybody else till then."""

        def left() -> float:
            return deadline - time.monotonic()

        self._couriers.join(left)
        self._thread.join(min(threading.TIMEOUT_MAX, max(1.0, left())))
        self._is_left = lives_on
        if not lives_on:
            self._crew.give_back(self._couriers.running(), "still on its way at the deadline")

    def is_at_work(self) -> bool:
        """Whether something is still on its way that was not given back."""
        return self._is_left and self._thread.is_alive()

    def join(self) -> None:
        """However long it takes."""
        self._thread.join()

    def _run(self) -> None:
        crew = self._crew
        with own_connection(crew.using, crew.watchdog, "destinations", engine=True):
            try:
                while not (self._stopping and not self.busy()):
                    if self._wake.wait(self._round()) and self._couriers.busy():
                        time.sleep(GATHER_SECONDS)
                    self._wake.clear()
            finally:
                close_connections()

    def _round(self) -> float:
        """Settle, claim; returns how long to sleep. After an error nobody knows what was claimed or settled, so the
        lease ends with all that hangs on it; whoever rescues it goes on."""
        lease = self._crew.lease.id
        try:
            with limited():
                tidy_connections()
            self._settle()
            lease = self._crew.lease.id
            if self._stopping or not lease:
                return DEAF_POLL_SECONDS
            with limited():
                delay = self._claim(lease)
            self._errors = 0
        except (DatabaseError, InterfaceError) as error:
            self._crew.lease.abandon(f"destinations could not be served: {str(error).strip()}", lease)
            close_connections()
            delay = WAITS[min(self._errors, len(WAITS) - 1)]
            self._errors += 1
        except Exception:
            logger.exception("unexpected error between database and destinations; it goes on")
            self._crew.lease.abandon("an unexpected error", lease)
            delay = WAITS[0]
        return delay

    def _settle(self) -> None:
        done = self._take_done()
        by_desk: dict[Desk, list[Done]] = {}
        for each in done:
            by_desk.setdefault(each.bundle.desk, []).append(each)
        try:
            self._write_down(done)
        finally:
            for desk, mine in by_desk.items():
                self._judge(desk, mine)

    def _write_down(self, done: list[Done]) -> None:
        ended = [end for each in done for end in each.ended]
        for lease in {end.claim.lease for end in ended}:
            self._settle_under(lease, [end for end in ended if end.claim.lease == lease])
        told = {end.claim.id for end in ended}
        self._crew.give_back([c for each in done for c in each.bundle.claims if c.id not in told], "not carried")

    def _judge(self, desk: Desk, done: list[Done]) -> None:
        """One by one, and whatever happens: a desk that was not judged would start nothing any more."""
        try:
            if judge(self._crew.using, desk, [end for each in done for end in each.ended]):
                self._crew.give_back(self._couriers.clear(desk), "its destination is left alone")
        except Exception:
            desk.probing = False
            logger.exception("the state of a destination could not be stored: name=%s", desk.name)
        finally:
            # Not before its events were given back: one of them would be started.
            self._couriers.untrip(desk, len(done))

    def _settle_under(self, lease: int, ended: list[Ended]) -> None:
        lost = patiently(lambda: settle(self._crew.using, lease, ended))
        self._crew.settled([end for end in ended if end.claim.id not in lost] if lost else ended)
        if lost:
            gone = [end.claim for end in ended if end.claim.id in lost]
            self._crew.lost(gone, "another worker may have sent it as well")

    def _take_done(self) -> list[Done]:
        found = []
        while True:
            try:
                found.append(self._couriers.done.get_nowait())
            except Empty:
                return found

    def _claim(self, lease: int) -> float:
        """Take what is due and has room; returns the seconds until there may be more."""
        was_idle = not self.busy()
        self._give_back_what_is_shut()
        names = [each for each in self._looking.names() if self._desks.knows(each.name)]
        claims = self._claiming.claim(names, lease)
        self._claimed += len(claims)
        by_desk: dict[str, list[Claim]] = {}
        for each in claims:
            by_desk.setdefault(each.subscriber, []).append(each)
        for name, mine in by_desk.items():
            if not self._couriers.put(self._desks[name], mine):
                self._crew.give_back(mine, "not started")
        if self._looking.more:
            return GATHER_SECONDS
        if was_idle and not claims and not any(map(self._is_left_for_later, names)):
            self._rounds += 1
            if self._asked is not None:
                self._crew.wake()  # somebody waits until all is done
        self._forget_idle_desks(self._looking.everybody())
        return min((self._seconds_until(each) for each in names), default=self._longest_sleep())

    def _give_back_what_is_shut(self) -> None:
        """Somebody has paused a destination, or another worker found out that it fails."""
        waiting = {desk.name: desk for desk in self._desks if desk.waiting and not desk.probing}
        if not waiting or time.monotonic() < self._shut_at:
            return
        self._shut_at = time.monotonic() + SHUT_SECONDS
        for name in gates.shut(self._crew.using, waiting):
            self._crew.give_back(self._couriers.clear(waiting[name]), "its destination is left alone")

    def _is_left_for_later(self, each: Ready) -> bool:
        """Due, and only its rate keeps it here."""
        return each.due_in <= 0 and not each.paused and each.opens_in is None and not self._desks.is_broken(each.name)

    def _seconds_until(self, each: Ready) -> float:
        """When to look after this one again, as far as the clock can tell; a courier who comes back wakes us."""
        longest = self._longest_sleep()
        desk = self._desks.find(each.name)
        if each.paused or (desk is not None and desk.room() <= 0):
            return longest
        wait = clock.real_seconds(max(0.0, each.due_in))
        if each.opens_in is not None:
            wait = max(wait, each.opens_in + 0.001)
        elif desk is not None and desk.bucket:
            wait = max(wait, desk.look_at - time.monotonic())
        elif each.due_in <= 0:
            wait = DEAF_POLL_SECONDS  # somebody else holds it, or it was just claimed
        return min(longest, max(0.0, wait))

    def _longest_sleep(self) -> float:
        """Where the worker is told of new work it may sleep; for a moment after it said so, some have not heard it."""
        if not self._hears():
            self._heard_since = float("inf")
        elif self._heard_since == float("inf"):
            self._heard_since = time.monotonic()
        sure = time.monotonic() - self._heard_since > SURE_SECONDS
        return self._poll_seconds if sure else min(self._poll_seconds, DEAF_POLL_SECONDS)

    def _forget_idle_desks(self, names: set[str]) -> None:
        for desk in self._desks.without(names):
            with self._couriers.lock:
                desk.forget()
                if not desk.held and not desk.failing_since and not desk.recent:
                    self._desks.forget(desk)
