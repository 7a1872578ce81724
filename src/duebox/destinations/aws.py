"""What the destinations at AWS share: the client, and what its errors mean."""

from __future__ import annotations

from typing import Any

from duebox.destinations.envelope import traceparent
from duebox.exceptions import InvalidDestination, Refused, Throttled, Undelivered
from duebox.fact import Fact
from duebox.tracing import parse

DEFAULT_BYTES = 256 * 1024
"""More may be allowed by now, but old queues, and much that stands behind a bus, take no more than this."""

CONNECTIONS = 50
_PASSING = {
    "InternalFailure",
    "InternalException",
    "InternalError",
    "ServiceUnavailable",
    "ServiceUnavailableException",
}
_TOO_MANY = {"RequestLimitExceeded", "TooManyRequestsException", "OverLimit", "SlowDown", "BandwidthLimitExceeded"}
_BLAMES_CONTENT = {
    "ValidationException", "ValidationError", "RequestEntityTooLargeException", "BatchRequestTooLong",
    "InvalidMessageContents", "InvalidParameterValue", "InvalidAttributeValue",
}  # fmt: skip


def client(service: str, *, region: str | None, endpoint_url: str | None, timeout: float) -> Any:
    """One for all threads. It tries once: when to try again is for the terms of the destination to say."""
    try:
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.exceptions import NoRegionError  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidDestination(f"boto3 is missing ({error}); run: pip install 'duebox[aws]'") from error
    if not 0 < timeout < 1e6:
        raise InvalidDestination(f"timeout is {timeout!r}; it must be a number of seconds above 0.")
    config = Config(
        connect_timeout=timeout,
        read_timeout=timeout,
        retries={"total_max_attempts": 1},
        tcp_keepalive=True,
        max_pool_connections=CONNECTIONS,
        user_agent_extra="duebox",
    )
    try:
        return boto3.Session().client(service, region_name=region, endpoint_url=endpoint_url, config=config)
    except NoRegionError as error:
        raise InvalidDestination(f"{service} needs a region; set OPTIONS['region'], or AWS_DEFAULT_REGION.") from error


def limited(largest: int, hard: int) -> int:
    """The option `largest`, if it can be meant."""
    if isinstance(largest, bool) or not isinstance(largest, int) or not 1 <= largest <= hard:
        raise InvalidDestination(f"largest is {largest!r}; it must be a number of bytes from 1 to {hard:,}.")
    return largest


def of_call(error: Exception) -> Undelivered | Refused:
    """What it means that a call failed as a whole.

    Only what blames the content of the call can be the fault of an event. A missing right or a missing queue is a
    mistake around it: once repaired, the same event goes through.
    """
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return Undelivered(f"no answer from AWS ({type(error).__name__}: {error})")
    told = answer.get("Error", {})
    code, status = str(told.get("Code", "")), answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    reason = f"{code}: {told.get('Message', '')}"
    if is_throttling(code) or status == 429:
        return Throttled(reason, status=status)
    if _bare(code) in _BLAMES_CONTENT or status == 413:
        return Refused(reason, status=status)
    return Undelivered(reason, status=status)


def of_entry(code: str, message: str, *, ours: bool = True) -> Undelivered | Refused:
    """What it means that one entry of a batch was not taken; `ours` where AWS does not take the blame itself."""
    reason = f"{code}: {message}"
    if is_throttling(code):
        return Throttled(reason)
    return Refused(reason) if ours and _bare(code) not in _PASSING else Undelivered(reason)


def is_throttling(code: str) -> bool:
    return "Throttl" in code or _bare(code) in _TOO_MANY


def _bare(code: str) -> str:
    """`AWS.SimpleQueueService.BatchRequestTooLong` is also known as `BatchRequestTooLong`."""
    return code.rpartition(".")[2]


def trace_header(fact: Fact) -> str:
    """The trace that the event was born in, as X-Ray writes it; or nothing."""
    born = parse(traceparent(fact))
    if born is None:
        return ""
    sampled = int(born.flags, 16) & 1
    return f"Root=1-{born.trace_id[:8]}-{born.trace_id[8:]};Parent={born.span_id};Sampled={sampled}"


def size_of(text: str) -> int:
    """In bytes, as it travels."""
    return len(text) if text.isascii() else len(text.encode())
