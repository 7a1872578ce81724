"""The context of the current work: the event, request or job that it comes from, for logs, traces and metrics.

current  the event that is being handled, and the origin of the work
metrics  counters and histograms of this process
tracing  trace parents of events, spans of handlers
logging  the filter and the JSON formatter for Django's LOGGING, the context of structlog
origins  a request, script or job as an origin; validation of request headers
"""

from __future__ import annotations

from duebox.context.current import correlation_id, origin
from duebox.context.origins import bound
from duebox.context.tracing import traceparent

__all__ = ["bound", "correlation_id", "origin", "traceparent"]
