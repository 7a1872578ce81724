"""Delivery to destinations, in threads of their own, so that a slow destination delays nothing else.

destination_queue  the waiting and running calls of each destination
sender_threads     the threads that call destinations
circuit_breaker    pause failing destinations, and try them again
claim              what to claim for which destination
sender             the thread that claims and settles; the only one that uses the database
"""

from __future__ import annotations

from duebox.worker.senders.sender import Sender, sender_of

__all__ = ["Sender", "sender_of"]
