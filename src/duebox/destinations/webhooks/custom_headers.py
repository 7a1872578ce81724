"""Headers that an organization adds to its webhooks, such as a token of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from duebox.exceptions import InvalidEndpoint

MOST = 20
LONGEST = 4096
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
# Visible ASCII with blanks in between; a line break would begin a header of its own.
_VALUE = re.compile(r"[!-~]([ \t!-~]*[!-~])?")
OURS = frozenset({
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    "x-correlation-id",
})  # fmt: skip
OURS_BY_PREFIX = ("webhook-", "proxy-", "x-forwarded-", "sec-")


def checked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, if a webhook may carry them. No message holds a value: it may be a credential."""
    if not isinstance(headers, Mapping) or len(headers) > MOST:
        raise InvalidEndpoint(f"Headers are a dict of at most {MOST}, such as {{'X-Token': '...'}}.")
    known: set[str] = set()
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidEndpoint("The name of a header is letters, digits and hyphens; one of these is not.")
        if name.lower() in OURS or name.lower().startswith(OURS_BY_PREFIX):
            raise InvalidEndpoint(f"The header {name!r} is set by Duebox, or by HTTP; leave it out.")
        if name.lower() in known:
            raise InvalidEndpoint(f"The header {name!r} is there twice; leave one out.")
        if not isinstance(value, str) or len(value) > LONGEST or not _VALUE.fullmatch(value):
            raise InvalidEndpoint(
                f"The value of the header {name!r} is not 1 to {LONGEST} characters of visible ASCII on one line; "
                "encode it, for example as base64."
            )
        known.add(name.lower())
    return dict(headers)
