"""Dead letters: fingerprints of errors, the event `duebox.delivery.dead`, and mails to the administrators.

fingerprint  the cause of an error, without what differs each time
notify       the event `duebox.delivery.dead`
mail         a mail to the administrators, one an hour for each cause
"""

from __future__ import annotations
