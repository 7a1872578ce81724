"""Optional use of Redis with DUEBOX['REDIS_URL']. The database is always authoritative.

connection       the connection and its check
schedule_mirror  upcoming schedules as a sorted set, for many readers
wakeup           wakes workers after a commit, if LISTEN is impossible

All data in Redis can be lost at any time: workers then find events by polling, and the mirror is rebuilt.
"""

from __future__ import annotations
