"""Removal of data: rows that are older than the settings say, and personal data of one row on request.

erase  remove the personal data of one row
prune  remove what is older than the settings say
"""

from __future__ import annotations

from duebox.retention.erase import Erased, erase
from duebox.retention.prune import Pruned, prune

__all__ = ["Erased", "Pruned", "erase", "prune"]
