"""Whether a worker is alive and ready: as values, and over HTTP for probes and for Prometheus.

`/live`     the main loop of the worker has run lately, or the worker is stopping; if not, restart the process
`/ready`    the worker has its lease and the database answers; if not, wait
`/metrics`  the metrics in the format of Prometheus, where DUEBOX["METRICS"] names it

The server is a thread of the worker's process, so that a process that is stopped or hangs as a whole does not answer.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from duebox.conf import conf
from duebox.exceptions import NotReady
from duebox.worker.lease import Lease
from duebox.worker.tunables import TUNABLES

if TYPE_CHECKING:
    from duebox.worker.worker import Worker

logger = logging.getLogger("duebox.worker")


class Health(NamedTuple):
    live: bool
    ready: bool
    problem: str
    """Why it is not; empty if it is both."""
    turned_seconds_ago: float
    lease: int

    def as_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "turned_seconds_ago": round(self.turned_seconds_ago, 3)}


class Pulse:
    """What the loop of a worker says about itself."""

    def __init__(self) -> None:
        self.turned_at = time.monotonic()
        """When it last began a turn."""
        self.errors = 0
        """How often in a row the database has failed."""

    def turn(self) -> None:
        self.turned_at = time.monotonic()


def health_of(lease: Lease, pulse: Pulse, *, turn_seconds: float, stopping: bool) -> Health:
    """`turn_seconds` is how long a turn of the loop may take."""
    turned = time.monotonic() - pulse.turned_at
    live = stopping or turned <= turn_seconds  # the loop has ended while handlers are waited for
    problem = ""
    if not live:
        problem = f"the worker's main loop has not run for {turned:.0f} s"
    elif stopping:
        problem = "the worker is stopping"
    elif lease.failures or pulse.errors:
        problem = "the database does not answer"
    elif not lease.id or time.perf_counter() >= lease.safe_until:
        problem = "the worker has no lease"
    return Health(live, not problem, problem, turned, lease.id)


class HealthServer:
    """A context manager: inside its block it answers on a port of this host."""

    def __init__(self, worker: Worker, host: str, port: int, *, live_seconds: float = TUNABLES.live_seconds) -> None:
        class Handler(_Handler):
            def health(self) -> Health:
                return worker.health(live_seconds=live_seconds)

        try:
            self._server = _Server((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise NotReady(
                f"The health server cannot listen on {host}:{port} ({reason}); choose another --health-port, "
                "or end what listens there."
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="duebox-health", daemon=True)

    @property
    def port(self) -> int:
        """The port that was given, or the one that the system chose if that was 0."""
        return int(self._server.server_address[1])

    def __enter__(self) -> HealthServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Mostly a probe that did not wait for the answer."""
        logger.debug("health request failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = TUNABLES.health_request_seconds
    server_version = "duebox"
    sys_version = ""

    def health(self) -> Health:
        raise NotImplementedError

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path in ("/live", "/ready"):
            found = self.health()
            self._answer_json(found.as_dict(), ok=found.live if path == "/live" else found.ready)
        elif path == "/metrics" and "prometheus" in conf().METRICS:
            self._answer_metrics()
        elif path == "/metrics":
            hint = "There are no metrics; set DUEBOX['METRICS'] = ['prometheus']."
            self._answer(HTTPStatus.NOT_FOUND, f"{hint}\n".encode(), "text/plain; charset=utf-8")
        else:
            paths = b"There are /live, /ready and /metrics.\n"
            self._answer(HTTPStatus.NOT_FOUND, paths, "text/plain; charset=utf-8")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer_metrics(self) -> None:
        from duebox.observe.metrics.prometheus import exposition

        self._answer(HTTPStatus.OK, *exposition())

    def _answer_json(self, found: dict[str, Any], *, ok: bool) -> None:
        status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, f"{json.dumps(found)}\n".encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A probe every few seconds is no news."""
        logger.debug("health request: %s", format % args)
