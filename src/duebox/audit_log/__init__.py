"""The audit log: who did what to what, and how it changed, in a chain that shows when it was tampered with.

chain     the hash chain and its keys
policy    what is recorded of a model: columns, masks, hashes
context   who acts, for whom, and where the request came from
record    `audit`: entries in the caller's transaction
seal      unpack batches of entries; committed entries get their places in the chain
erase     values of entries about one entity are removed
triggers  what the triggers record of followed models
verify    read the chain, and find what was changed
archive   export entries, and delete the oldest
"""

from __future__ import annotations

from duebox.audit_log import context as context  # sends the context of changes to the triggers
from duebox.audit_log.archive import Pruned, prune
from duebox.audit_log.policy import follow
from duebox.audit_log.verify import Flaw, Verdict, verify

__all__ = ["Flaw", "Pruned", "Verdict", "follow", "prune", "verify"]
