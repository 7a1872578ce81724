"""What Redis may do for Duebox, beside the database, which stays the truth. With DUEBOX['REDIS_URL'] only.

bell        wakes workers after a commit, where LISTEN is impossible
listener    hears the bell, in a worker
mirror      schedules to come as a sorted set, for many readers
mirroring   keeps the mirror up to date, in a worker
tier        both of these, as a worker starts and stops them
checking    whether the package for it is installed
hooks       what is done at emit and at every change of a schedule

Whatever is in Redis can be lost at any time: workers find events by polling then, and the mirror is built anew.
"""

from __future__ import annotations
