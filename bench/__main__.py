from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import django

Row = tuple[str, str, str, str, float | None]
RESULT = Path(__file__).parent / "latest.json"


def main() -> None:
    options = _options()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, run_syncdb=True)
    parts = {"engine": measure_engine, "time": measure_time, "contracts": measure_contracts, "audit": measure_audit}
    parts |= {"order": measure_order, "webhooks": measure_webhooks, "aws": measure_aws, "celery": measure_celery}
    result: dict[str, object] = {}
    for name, part in parts.items():
        if options.only in (None, name):
            result |= part(options)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    show(result)
    out = options.out
    print(f"written to {out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out}")


def measure_engine(options: argparse.Namespace) -> dict[str, object]:
    from bench import claim, drain, emit, latency

    def median(name: str, action: Callable[[], float]) -> float:
        print(f"  {name} ...", end="", flush=True, file=sys.stderr)
        found = statistics.median(action() for _ in range(options.repeat))
        print(f" {found:,.0f}/s", file=sys.stderr)
        return round(found, 1)

    result: dict[str, object] = {"events": options.events, "processes": options.processes}
    result["drain_events_s"] = median("drain", lambda: drain.drain("bench.plain", options.events, options.processes))
    result["limit_events_s"] = median("limit of the SQL, one client", lambda: drain.limit(options.events))
    result["limit_two_clients_events_s"] = median("limit, two clients", lambda: drain.limit(options.events, 2))
    result["drain_atomic_events_s"] = median(
        "drain, atomic handler", lambda: drain.drain("bench.atomic", options.events // 5, options.processes)
    )
    print("  emit, latency, claim, idle ...", file=sys.stderr)
    ours, bare = emit.emit_and_limit(options.transactions)
    result["emit_tx_s"], result["emit_limit_tx_s"] = round(ours, 1), round(bare, 1)
    result["latency_ms"] = latency.latency(options.samples)
    few, many = claim.claim_in_turns(10_000, options.future)
    result["claim_ms_at"] = {"10k": round(few, 3), "1m": round(many, 3)}
    cpu, megabytes = latency.idle_cost(options.idle)
    result["idle_cpu_percent"], result["rss_mb"] = round(cpu, 2), round(megabytes, 1)
    return result


def measure_time(options: argparse.Namespace) -> dict[str, object]:
    from bench import firing, planning

    print("  schedules: lateness, a crowd, the cost of the future ...", file=sys.stderr)
    result: dict[str, object] = {"lateness_ms": firing.lateness(), "lateness_in_memory_ms": firing.in_memory()}
    result["crowd_committed_s"], result["crowd_handled_s"] = (round(each, 3) for each in firing.crowd())
    few, many = firing.cost_in_turns(10_000, options.future)
    result["fire_ms_at"] = {"10k": round(few, 2), "1m": round(many, 2)}
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
    took = audit.verify(options.entries)
    audit.empty()
    result = {"audit_entries": options.entries, "audit_verify_s": round(took, 1)}
    result["audit_record_s"] = round(audit.record(2_000))
    audit.empty()
    return result


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


def show(result: dict[str, object]) -> None:
    rows = [*engine_rows(result)] if "drain_events_s" in result else []
    rows += [*time_rows(result)] if "sync_s" in result else []
    rows += [*contract_rows(result)] if "contract_row_us" in result else []
    rows += [*audit_rows(result)] if "audit_verify_s" in result else []
    rows += [*order_rows(result)] if "ordered_events_s" in result else []
    rows += [*webhook_rows(result)] if "webhooks_rate" in result else []
    if "aws_event_us" in result:
        from bench import aws

        rows += aws.rows(result)
    if "celery" in result:
        from bench import celery

        rows += celery.rows(result)
    for what, found, reference, value, ratio in rows:
        told = f"{ratio:5.2f} x" if ratio else ""
        print(f"{what:36} {found:>26}   {reference:24} {value:>12} {told:>8}")


def order_rows(result: dict[str, object]) -> list[Row]:
    ordered, plain = result["ordered_events_s"], result["unordered_events_s"]
    return [
        ("drain in order, many keys", f"{ordered:,.0f}/s", "in no order", f"{plain:,.0f}/s", ordered / plain),
        ("2,000 behind 100,000 on two hot keys", f"{result['others_behind_hot_s']} s", "without those",
         f"{result['others_alone_s']} s", None),
    ]  # fmt: skip


def webhook_rows(result: dict[str, object]) -> list[Row]:
    alone, both = result["webhooks_alone_s"], result["webhooks_with_bad_s"]
    return [
        ("webhooks by one worker", f"{result['webhooks_rate']:,.0f}/s", "", "", None),
        ("17,500 webhooks beside 6 bad endpoints", f"{both} s", "without those", f"{alone} s", both / alone),
    ]


def time_rows(result: dict[str, object]) -> list[Row]:
    late, memory, fire = result["lateness_ms"], result["lateness_in_memory_ms"], result["fire_ms_at"]
    people = f"{result['people']:,} anniversaries"
    return [
        ("due to handler, p50 / p95 / p99", f"{late['p50']} / {late['p95']} / {late['p99']} ms",
         "APScheduler, in memory", f"{memory['p50']} / {memory['p99']} ms", late["p50"] / memory["p50"]),
        ("10,000 due at once, committed", f"{result['crowd_committed_s']} s", "", "", None),
        ("10,000 due at once, handled", f"{result['crowd_handled_s']} s", "", "", None),
        ("fire 100, 1 m schedules to come", f"{fire['1m']:.2f} ms", "fire 100, 10 k to come",
         f"{fire['10k']:.2f} ms", fire["1m"] / fire["10k"]),
        (f"sync {people}", f"{result['sync_s']} s", "INSERT ... SELECT of them",
         f"{result['sync_limit_s']} s", result["sync_s"] / result["sync_limit_s"]),
        ("the same again, nothing changed", f"{result['sync_again_s']} s", "", "", None),
        ("a zone moves, re-planned", f"{result['rezoned']:,} in {result['rezone_s']} s", "", "", None),
    ]  # fmt: skip


def engine_rows(result: dict[str, object]) -> list[Row]:
    claims, late = result["claim_ms_at"], result["latency_ms"]
    return [
        ("drain, no-op handler", f"{result['drain_events_s']:,.0f}/s", "raw SQL, one client",
         f"{result['limit_events_s']:,.0f}/s", result["drain_events_s"] / result["limit_events_s"]),
        ("", "", "raw SQL, two clients",
         f"{result['limit_two_clients_events_s']:,.0f}/s",
         result["drain_events_s"] / result["limit_two_clients_events_s"]),
        ("drain, atomic handler, one row", f"{result['drain_atomic_events_s']:,.0f}/s", "", "", None),
        ("emit and commit", f"{result['emit_tx_s']:,.0f}/s", "two INSERTs and COMMIT",
         f"{result['emit_limit_tx_s']:,.0f}/s", result["emit_tx_s"] / result["emit_limit_tx_s"]),
        ("claim 100, 1 m rows not due", f"{claims['1m']:.2f} ms", "claim 100, 10 k not due",
         f"{claims['10k']:.2f} ms", claims["1m"] / claims["10k"]),
        ("commit to handler, p50 / p95 / p99", f"{late['p50']} / {late['p95']} / {late['p99']} ms", "", "", None),
        ("idle worker", f"{result['idle_cpu_percent']} % of a core, {result['rss_mb']} MB", "", "", None),
    ]  # fmt: skip


def audit_rows(result: dict[str, object]) -> list[Row]:
    return [
        (f"verify {result['audit_entries']:,} audit entries", f"{result['audit_verify_s']} s", "", "", None),
        ("record one and commit", f"{result['audit_record_s']:,}/s", "", "", None),
    ]


def contract_rows(result: dict[str, object]) -> list[Row]:
    """How much a schema adds to what the same payload costs without one."""
    rows = []
    for what, key in (("build the row", "contract_row_us"), ("emit, in a transaction", "contract_emit_us")):
        found = result[key]
        for how in ("checked", "instance"):
            bare, added = found["unchecked"], found[f"{how}_adds"]
            told = f"{found[how]:.1f} us ({added:+.1f} us)"
            rows.append((f"{what}, {how}", told, "not checked", f"{bare:.1f} us", 1 + added / bare))
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Duebox beside its own limit.")
    parser.add_argument("--events", type=int, default=100_000, help="stored events to drain (100000)")
    parser.add_argument("--processes", type=int, default=1, help="worker processes for the drain (1)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each drain; the median counts (3)")
    parser.add_argument("--transactions", type=int, default=6_000, help="transactions for emit (6000)")
    parser.add_argument("--samples", type=int, default=400, help="latency samples (400)")
    parser.add_argument("--future", type=int, default=1_000_000, help="rows not due yet for the claim (1000000)")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds to watch the idle worker (10)")
    parser.add_argument("--people", type=int, default=1_000_000, help="people whose birthdays are planned (1000000)")
    parser.add_argument("--entries", type=int, default=1_000_000, help="entries of the audit log (1000000)")
    parts = ["engine", "time", "contracts", "audit", "order", "webhooks", "aws", "celery"]
    parser.add_argument("--only", choices=parts, help="measure one part only")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the figures go as JSON (bench/latest.json)")
    return parser.parse_args()


main()
