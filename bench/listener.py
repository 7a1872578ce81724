"""A bare worker: it listens, takes what is there with one plain statement, and prints the number and the time."""

from __future__ import annotations

import json
import os
import sys
import time

import psycopg

TAKE = """DELETE FROM duebox_delivery USING duebox_event
    WHERE duebox_event.id = duebox_delivery.event_id AND duebox_delivery.id IN (
        SELECT id FROM duebox_delivery WHERE subscriber = 'latency' AND due_at <= now()
        ORDER BY due_at LIMIT 100 FOR UPDATE SKIP LOCKED)
    RETURNING duebox_event.data -> 'number'"""


def main() -> None:
    params = json.loads(sys.argv[1])
    with psycopg.connect(**params, autocommit=True) as listening, psycopg.connect(**params, autocommit=True) as taking:
        listening.execute("LISTEN bench")
        print("ready", flush=True)
        for _ in listening.notifies():
            for (number,) in taking.execute(TAKE).fetchall():
                os.write(1, f"{number} {time.time()}\n".encode())


if __name__ == "__main__":
    main()
