"""The fingerprint of an error: its class, its message without variable parts, and where it was raised.

Dead letters with the same cause share a fingerprint, so that many of them form a few groups. Line numbers are left out:
they change with every release. An HTTP response is identified by its status, because its text is written by the other
system and may vary.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator
from hashlib import blake2b, sha256
from pathlib import Path
from types import CodeType, FrameType

from duebox.exceptions import Refused, Undelivered

UNKNOWN = "unknown"
"""For a delivery that died before fingerprints were stored."""
WORKER_LOST = "worker-lost"
"""For a delivery that was running each time when workers were lost."""

_LINE_LIMIT = 500
_MASKED_LIMIT = 300
_MASKS = re.compile(
    r"""
      (?P<quoted> '[^']*' | "[^"]*" | `[^`]*` )
    | (?P<url>    \b[a-z][a-z0-9+.-]*://\S+ )
    | (?P<mail>   [^\s@<>()]+@[^\s@<>()]+ )
    | (?P<uuid>   \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b )
    | (?P<value>  (?<==)\([^()]*\) )                    # Key (email)=(…) already exists
    | (?P<hex>    \b0x[0-9a-f]+\b | \b(?=[a-f]*[0-9])[0-9a-f]{8,}\b )
    | (?P<number> [-+]?\d+(?:[.,:]\d+)* )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CODE = re.compile(r"\A[A-Za-z][\w.]*(?=:)")
_TRACEBACK = re.compile(r"\A\s*(\+ Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'^[ |]*File ".*", line \d+', re.MULTILINE)
_OURS = (
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(__file__).parents[1],
)
_NOT_THEIRS = tuple({f"{path}/" for each in _OURS for path in (each, each.resolve())})


def fingerprint(error: BaseException) -> str:
    """Twelve hexadecimal digits, the same in every process."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    parts = (kind, _answer(error) or masked(_message(error)), _place(error))
    return blake2b("\n".join(parts).encode(errors="backslashreplace"), digest_size=6).hexdigest()


def group_id(event_type: str, subscriber: str, fingerprint: str) -> str:
    """The id of a group of dead letters; delivery_groups.sql computes the same."""
    return sha256("\n".join((event_type, subscriber, fingerprint)).encode()).hexdigest()[:12]


def masked(message: str) -> str:
    """A message without the ids, numbers and values in it; the same for all deliveries that fail with the same
    cause."""
    lines = message.strip().splitlines()
    return _MASKS.sub(lambda found: f"<{found.lastgroup}>", lines[0][:_MASKED_LIMIT]) if lines else ""


def error_line(error: BaseException) -> str:
    """The error in one line, as at the end of the note in the history."""
    if isinstance(error, Undelivered | Refused):
        return telling_line(str(error), error.status)
    return _line("".join(traceback.format_exception_only(error)), -1)


def telling_line(note: str, status: int | None = None) -> str:
    """The line of a note in the history that names the error: the last one of a traceback, the first one of an HTTP
    response, which has a status."""
    # The beginning of a long traceback is not stored. The body of a response may contain one, too.
    is_traceback = _TRACEBACK.match(note) or (status is None and _FRAME.search(note))
    return _line(note, -1 if is_traceback else 0)


def _line(text: str, position: int) -> str:
    lines = text.strip().splitlines()
    return lines[position].strip()[:_LINE_LIMIT] if lines else ""


def _answer(error: BaseException) -> str:
    """The status of a response, and the code at the beginning of its text, if there is one: `400
    ValidationException`."""
    if not isinstance(error, Undelivered | Refused) or error.status is None:
        return ""
    code = _CODE.match(_message(error))
    return f"{error.status} {code[0] if code else ''}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception class whose __str__ fails; the dead letter must be written nevertheless
        return ""


def _place(error: BaseException) -> str:
    """The innermost function of the project in the traceback. Responses of destinations have none."""
    if isinstance(error, Undelivered | Refused):
        return ""
    theirs = [frame for frame in _frames(error) if _is_theirs(frame.f_code)]
    return f"{theirs[-1].f_globals.get('__name__', '')}.{theirs[-1].f_code.co_qualname}" if theirs else ""


def _frames(error: BaseException) -> Iterator[FrameType]:
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next


def _is_theirs(code: CodeType) -> bool:
    """Whether a file belongs to the project, and not to Duebox, Python or an installed package; a name in brackets is
    not a file."""
    return not code.co_filename.startswith((*_NOT_THEIRS, "<frozen"))
