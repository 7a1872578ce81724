from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import django

RESULT = Path(__file__).parent / "latest.json"
HISTORY = Path(__file__).parent / "history.jsonl"


def main() -> int:
    options = _options()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    django.setup()
    from django.core.management import call_command

    from bench import history, report

    if options.record and history.commit().endswith("+"):
        print("Not recorded: src or bench has changes that are not committed. Commit them, then measure.")
        return 2
    call_command("migrate", verbosity=0, run_syncdb=True)
    result: dict[str, object] = {**history.stamp()}
    for name in _chosen(options):
        result |= PARTS[name](options)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    report.show(result)
    out = options.out
    print(f"written to {out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out}")
    failed = options.check and not check(result["ratios"], options)
    if options.record:
        history.append({**result, "what": options.record}, options.history)
        print(f"a line added to {options.history.name}; commit it")
    return 1 if failed else 0


def check(ratios: dict[str, float], options: argparse.Namespace) -> bool:
    """Whether no ratio has fallen by half against the last line of the history."""
    from bench import history, hot

    earlier = history.lines(options.history)
    if not earlier:
        print("no line in the history yet, so there is nothing to compare with; add one with --record 'what changed'")
        return True
    last = earlier[-1]
    warned, failed = history.compare(
        ratios, last["ratios"], lambda ratio: hot.measure_path(hot.path_of(ratio), options).ratios
    )
    for each in warned:
        print(f"warning: a ratio has fallen by a quarter since {last['commit']}: {each}")
    for each in failed:
        print(f"error: a ratio has fallen by half since {last['commit']}, median of three: {each}")
    if not warned and not failed:
        print(f"no ratio has fallen by a quarter since {last['commit']}")
    if changes := history.changed_since(last):
        print(f"not in the history yet: {len(changes)} changes of the worker or the store since {last['commit']}")
    return not failed


def measure_hot(options: argparse.Namespace) -> dict[str, object]:
    from bench import hot

    figures, ratios = hot.measure(options)
    return {**figures, "ratios": ratios}


def measure_engine(options: argparse.Namespace) -> dict[str, object]:
    from bench import drain, latency

    print("  drain with an atomic handler, an idle worker ...", file=sys.stderr)
    rates = [drain.drain("bench.atomic", options.events // 5, options.processes) for _ in range(options.repeat)]
    cpu, megabytes = latency.idle_cost(options.idle)
    return {
        "processes": options.processes,
        "drain_atomic_events_s": round(statistics.median(rates), 1),
        "idle_cpu_percent": round(cpu, 2),
        "rss_mb": round(megabytes, 1),
    }


def measure_time(options: argparse.Namespace) -> dict[str, object]:
    from bench import firing, planning

    print("  schedules: 10,000 due at once ...", file=sys.stderr)
    result: dict[str, object] = {}
    result["crowd_committed_s"], result["crowd_handled_s"] = (round(each, 3) for each in firing.crowd())
    print(f"  planning for {options.people:,} people ...", file=sys.stderr)
    planning.fill(options.people)
    result["people"], result["sync_s"] = options.people, round(planning.sync(options.people), 1)
    result["sync_limit_s"] = round(planning.limit(), 1)
    result["sync_again_s"] = round(planning.sync_again(options.people), 1)
    took, moved = planning.move_a_zone()
    result["rezone_s"], result["rezoned"] = round(took, 1), moved
    return result


def measure_contracts(options: argparse.Namespace) -> dict[str, object]:
    from bench import contracts

    print("  contracts: emissions held to a schema, and not ...", file=sys.stderr)
    return contracts.cost()


def measure_audit(options: argparse.Namespace) -> dict[str, object]:
    from bench import audit

    print(f"  audit: a log of {options.entries:,} entries ...", file=sys.stderr)
    audit.fill(options.entries)
    rate = audit.seal(options.entries)
    took = audit.verify(options.entries)
    audit.empty()
    result = {"audit_entries": options.entries, "audit_verify_s": round(took, 1), "audit_seal_s": round(rate)}
    result["audit_record_s"] = round(audit.record(2_000))
    result["audit_record_together_s"] = round(audit.record_together(4_000))
    audit.empty()
    return result


def measure_capture(options: argparse.Namespace) -> dict[str, object]:
    from bench import capture

    print("  capture: saves and a bulk update with triggers, and without ...", file=sys.stderr)
    return capture.measure()


def measure_order(options: argparse.Namespace) -> dict[str, object]:
    from bench import order

    print("  order: on many keys, and behind two hot ones ...", file=sys.stderr)
    return order.measure()


def measure_webhooks(options: argparse.Namespace) -> dict[str, object]:
    from bench import webhooks

    print("  webhooks: by one worker, and beside endpoints that fail ...", file=sys.stderr)
    return webhooks.measure()


def measure_aws(options: argparse.Namespace) -> dict[str, object]:
    from bench import aws

    print("  EventBridge: our code beside a bare loop, a worker's requests ...", file=sys.stderr)
    return aws.cost()


def measure_celery(options: argparse.Namespace) -> dict[str, object]:
    from bench import celery

    print("  Celery: hand-over to Redis and RabbitMQ ...", file=sys.stderr)
    return celery.hand_over()


def measure_retention(options: argparse.Namespace) -> dict[str, object]:
    from bench import retention

    print(f"  retention: {options.old:,} old events are pruned while a worker drains ...", file=sys.stderr)
    return retention.measure(options.old, options.events, options.repeat)


def measure_observing(options: argparse.Namespace) -> dict[str, object]:
    from bench import observing

    print("  observing: drain with metrics, logs and rollup, and without ...", file=sys.stderr)
    return observing.measure(min(options.events, 30_000))


def measure_pages(options: argparse.Namespace) -> dict[str, object]:
    from bench import pages

    print(f"  pages: of the dashboard and the admin, with {options.old:,} events ...", file=sys.stderr)
    return pages.measure(options.old)


PARTS = {
    "hot": measure_hot,
    "engine": measure_engine,
    "time": measure_time,
    "contracts": measure_contracts,
    "audit": measure_audit,
    "capture": measure_capture,
    "order": measure_order,
    "webhooks": measure_webhooks,
    "aws": measure_aws,
    "celery": measure_celery,
    "retention": measure_retention,
    "observing": measure_observing,
    "pages": measure_pages,
}


def _chosen(options: argparse.Namespace) -> list[str]:
    if options.only:
        return [options.only]
    return list(PARTS) if options.all else ["hot"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure the hot paths of Duebox, each beside its reference."
    )
    parser.add_argument("--all", action="store_true", help="measure everything, which takes a quarter of an hour")
    parser.add_argument("--only", choices=list(PARTS), help="measure one part only")
    parser.add_argument("--check", action="store_true", help="compare the ratios with the last line of the history")
    parser.add_argument("--record", metavar="WHAT", help="add a line to the history, with what changed")
    parser.add_argument("--events", type=int, default=100_000, help="stored events to drain (100000)")
    parser.add_argument("--processes", type=int, default=1, help="workers for the drain with an atomic handler (1)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each drain; the median counts (3)")
    parser.add_argument("--transactions", type=int, default=6_000, help="transactions for emit (6000)")
    parser.add_argument("--samples", type=int, default=400, help="latency samples (400)")
    parser.add_argument("--one-shots", type=int, default=2_000, help="one-shots, 200 a second (2000)")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of claim and fire (60)")
    parser.add_argument("--future", type=int, default=1_000_000, help="rows not due yet for claim and fire (1000000)")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds to watch the idle worker (10)")
    parser.add_argument("--people", type=int, default=1_000_000, help="people whose birthdays are planned (1000000)")
    parser.add_argument("--entries", type=int, default=1_000_000, help="entries of the audit log (1000000)")
    parser.add_argument("--old", type=int, default=1_000_000, help="old events, for retention and pages (1000000)")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the figures go as JSON (bench/latest.json)")
    parser.add_argument("--history", type=Path, default=HISTORY, help="the earlier runs (bench/history.jsonl)")
    options = parser.parse_args()
    if (options.check or options.record) and options.only not in (None, "hot"):
        parser.error("--check and --record need the hot paths; leave --only out.")
    return options


if __name__ == "__main__":
    sys.exit(main())
