"""Where events go, and which of them.

patterns     which events a destination wants: patterns as EventBridge knows them
webhooks     signatures of Standard Webhooks, and a guard that keeps deliveries out of private networks
"""

from __future__ import annotations
