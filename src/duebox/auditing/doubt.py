"""A head whose seal does not fit: somebody has changed it, or sealed it with a key that is not known here.

Work goes on. What was found is written into the chain before anything else, or the next entry would cover the traces.
Whoever verifies may know more keys, and judges.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from duebox.auditing.chain import SEPARATOR, is_sealed
from duebox.auditing.entry import make
from duebox.auditing.story import story
from duebox.store.audits import Entry, Head

ACTION = "audit.head_doubted"
DOUBT = f"{SEPARATOR}{ACTION}{SEPARATOR}".encode()
"""How the text of such an entry is recognised."""

logger = logging.getLogger("duebox.audit")


def doubts(heads: Iterable[Head]) -> list[Entry]:
    """An entry for each head whose seal does not fit."""
    return [_doubt(head) for head in heads if not is_sealed(head)]


def doubted(text: bytes) -> Head:
    """The head that such an entry speaks of."""
    try:
        said = json.loads(text.rpartition(SEPARATOR.encode())[2])
        hashes = {name: bytes.fromhex(said[name]) for name in ("hash", "pruned_hash", "seal")}
        return Head(**(said | hashes))
    except (ValueError, TypeError, KeyError):  # somebody has changed this as well
        return Head("", -1, b"", 0, b"", b"")


def _doubt(head: Head) -> Entry:
    logger.error(
        "audit head is in doubt: organization=%s; find out what happened with: manage.py duebox audit verify",
        head.organization,
    )
    hashes = {name: getattr(head, name).hex() for name in ("hash", "pruned_hash", "seal")}
    said = json.dumps(head._asdict() | hashes, ensure_ascii=False)
    return make(ACTION, ("audit", "head"), story(), organization=head.organization, changes="{}", metadata=said)
