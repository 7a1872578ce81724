"""Receipts: where chains ended at some time, kept outside of the database.

Whoever can write to the database can put an old head back together with the entries of that time, or remove a whole
chain. Only somebody who remembers can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from duebox.exceptions import InvalidAudit


class Receipt(NamedTuple):
    sequence: int
    hash: bytes


Receipts = dict[str, Receipt]


def read(lines: Iterable[str]) -> Receipts:
    """From what `duebox audit verify --json` printed."""
    receipts: Receipts = {}
    for number, line in enumerate(lines, start=1):
        try:
            said = json.loads(line)
            receipts[str(said["organization"])] = Receipt(int(said["sequence"]), bytes.fromhex(said["hash"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidAudit(
                f"Line {number} of the receipts is none ({error}); keep what `duebox audit verify --json` prints."
            ) from error
    return receipts
