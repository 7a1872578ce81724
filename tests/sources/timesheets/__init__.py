"""Time entries, members and subscriptions: events for other services, customers and auditors."""

from __future__ import annotations
