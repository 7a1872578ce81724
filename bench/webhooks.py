"""Webhooks by one worker process to a local receiver: how many a second, and what bad endpoints do to good ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

PORT = "DUEBOX_BENCH_RECEIVER"
ORGANIZATIONS = 4
EVENTS = 5_000
GOOD = [["ok"] * 3, ["ok"] * 3, ["ok"] * 4, ["ok"] * 4]
BAD = [["fail", "slow"], ["fail", "slow"], ["fail"], ["redirect"]]


def measure() -> dict[str, object]:
    """In a process of its own, whose settings have the destination."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, PORT: str(port)}
    found = subprocess.run(
        [sys.executable, "-m", "bench.webhooks"], env=environment, stdout=subprocess.PIPE, check=True
    )
    result: dict[str, object] = json.loads(found.stdout)
    return result


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, run_syncdb=True)
    many, _ = run([["ok"] * 4], 2_500)
    alone, both, came = [], [], {}
    for _ in range(2):  # in turns: the machine has better and worse minutes
        alone.append(run(GOOD, EVENTS)[0])
        seconds, came = run([good + bad for good, bad in zip(GOOD, BAD, strict=True)], EVENTS)
        both.append(seconds)
    good = {path: different for path, (_, different) in came.items() if path.startswith("/ok/")}
    told = {
        "rate": round(10_000 / many, 1),
        "alone_s": round(min(alone), 2),
        "with_bad_s": round(min(both), 2),
        "success": sum(good.values()) / (EVENTS / ORGANIZATIONS * sum(map(len, GOOD))),
        "bad": {path: count for path, (count, _) in came.items() if not path.startswith("/ok/")},
    }
    print(json.dumps({f"webhooks_{name}": value for name, value in told.items()}))


def run(kinds: list[list[str]], count: int) -> tuple[float, dict[str, list[int]]]:
    """Seconds until the good endpoints have everything, and what came where."""
    with receiver() as port:
        set_up(port, kinds)
        emit(count, len(kinds))
        wanted = sum(its.count("ok") for its in kinds) * count // len(kinds)
        return deliver(port, wanted), report(port)


@contextmanager
def receiver() -> Iterator[int]:
    port = os.environ[PORT]
    process = subprocess.Popen([sys.executable, "-m", "bench.receiver", port], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        process.stdout.readline()
        yield int(port)
    finally:
        process.kill()
        process.communicate()


def report(port: int) -> dict[str, list[int]]:
    """How many webhooks came to each path, and how many different ones."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/report") as answer:
        found: dict[str, list[int]] = json.load(answer)
        return found


def set_up(port: int, kinds: list[list[str]]) -> None:
    """For each organization, endpoints of these kinds."""
    from bench import stage
    from duebox.destinations.webhooks import endpoints
    from duebox.models import Endpoint

    stage.empty()
    Endpoint.objects.all().delete()
    for organization, its in enumerate(kinds):
        for number, kind in enumerate(its):
            endpoints.create(f"org{organization}", f"http://127.0.0.1:{port}/{kind}/{organization}/{number}", ["*"])


def emit(count: int, organizations: int) -> None:
    import duebox
    from bench import stage
    from bench.events import Paid

    for start in range(0, count, 500):
        duebox.emit_many(
            duebox.NewEvent(type=Paid(text="x" * 260), organization=f"org{number % organizations}")
            for number in range(start, min(start + 500, count))
        )
    stage.settle_down()


def deliver(port: int, wanted: int) -> float:
    """Seconds from the start of the work until the good endpoints have got so many."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "bench.worker", "--for-ever"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout
    assert worker.stdin
    assert worker.stdout.readline() == "ready\n"
    started = time.perf_counter()
    worker.stdin.write("go\n")
    worker.stdin.flush()
    while sum(different for path, (_, different) in report(port).items() if path.startswith("/ok/")) < wanted:
        time.sleep(0.1)
        assert time.perf_counter() - started < 300, report(port)
    seconds = time.perf_counter() - started
    worker.kill()
    worker.communicate()
    return seconds


if __name__ == "__main__":
    main()
