"""What leaves the tables: rows whose time is over, and personal data of one row when somebody asks for it.

erase  remove the personal data of one row
prune  remove what is older than the settings say
"""

from __future__ import annotations

from duebox.retention.erase import Erased, erase
from duebox.retention.prune import Pruned, prune

__all__ = ["Erased", "Pruned", "erase", "prune"]
