"""Erase the values of audit entries about one entity, so that the chain can still be verified.

The seal of an entry holds a keyed hash of its text, and stays. Beside it a second keyed hash is stored, of the seal and
the text that is left. An entry that was not as it was written before gets no such hash: it stays a flaw.
"""

from __future__ import annotations

from duebox.audit_log import chain
from duebox.audit_log.seal import seal_all
from duebox.models import AuditEntry, AuditErasure, AuditSeal, StoredAuditEntry
from duebox.models.audit import AuditQuerySet
from duebox.store import audit
from duebox.store.audit import Link

ERASED = "duebox.erased"
"""The action of the entry that says that something was erased. Such entries are never erased themselves."""


def erasable(using: str, kind: str, id: str) -> AuditQuerySet:
    """Entries about an entity whose values are still there."""
    entries = AuditEntry.objects.using(using).about(kind, id).exclude(action=ERASED)
    return entries.exclude(id__in=AuditErasure.objects.using(using).values("entry_id"))


def erase_values(using: str, kind: str, id: str) -> tuple[int, int]:
    """How many entries lost their values, and how many are left because they are not sealed yet. Belongs into a
    transaction in which `store.erasure.erasing` allows changes."""
    seal_all(using)
    entries = erasable(using, kind, id)
    held = StoredAuditEntry.objects.using(using).filter(id__in=entries.values("id")).select_for_update().order_by("id")
    seals = AuditSeal.objects.using(using).filter(entry_id__in=[row.id for row in held.only("id")])
    sequences = list(seals.order_by("sequence").values_list("sequence", flat=True))
    links = [_link(using, sequence) for sequence in sequences]
    secrets = chain.every("chain")
    intact = [link for link in links if link.text is not None and chain.is_of(link, link.text, secrets)]
    audit.erase(using, [link.entry_id for link in links])
    audit.note_erasures(
        using, {link.entry_id: chain.erasure_of(link, _link(using, link.sequence).text or b"") for link in intact}
    )
    return len(links), entries.filter(seal__isnull=True).count()


def _link(using: str, sequence: int) -> Link:
    [link] = audit.read(using, after=sequence - 1, until=sequence, organization=None, limit=1)
    return link
