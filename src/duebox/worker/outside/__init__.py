"""Delivering to destinations: apart from the handlers, so that whoever is slow outside keeps nobody waiting inside.

service    one thread that claims and settles; the only one that talks to the database
desk       one destination as this worker sees it: what waits, what runs, how it fared of late
couriers   the threads that carry events out
carrying   one call: events go out, outcomes come back
health     what the outcomes say about a destination: failing, to be left alone, well again
"""

from __future__ import annotations

from duebox.worker.outside.service import Outside, outside_of

__all__ = ["Outside", "outside_of"]
