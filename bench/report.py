"""The figures as a table, each beside its reference."""

from __future__ import annotations

Row = tuple[str, str, str, str, float | None]


def show(result: dict[str, object]) -> None:
    rows = [*hot_rows(result)] if "drain_two_workers_events_s" in result else []
    rows += [*engine_rows(result)] if "drain_atomic_events_s" in result else []
    rows += [*time_rows(result)] if "sync_s" in result else []
    rows += [*contract_rows(result)] if "contract_row_us" in result else []
    rows += [*audit_rows(result)] if "audit_verify_s" in result else []
    rows += [*capture_rows(result)] if "update_50k_ms" in result else []
    rows += [*order_rows(result)] if "ordered_events_s" in result else []
    rows += [*webhook_rows(result)] if "webhooks_rate" in result else []
    rows += [*retention_rows(result)] if "prune_share" in result else []
    if "observed_share" in result:
        found, bare = result["observed_drain_s"], result["not_observed_drain_s"]
        told = f"{found:,.0f}/s"
        rows.append(("drain with metrics, logs, rollup", told, "without", f"{bare:,.0f}/s", result["observed_share"]))
    if "pages" in result:
        from bench import pages

        rows += pages.rows(result)
    if "aws_event_us" in result:
        from bench import aws

        rows += aws.rows(result)
    if "celery" in result:
        from bench import celery

        rows += celery.rows(result)
    print(f"{'':38} {'Duebox':>26}   {'beside it':24} {'':>18}    ratio")
    for what, found, reference, value, ratio in rows:
        told = f"{ratio:5.2f} x" if ratio else ""
        print(f"{what:38} {found:>26}   {reference:24} {value:>18} {told:>8}")


def hot_rows(result: dict[str, object]) -> list[Row]:
    ratios, claims, fires = result["ratios"], result["claim_ms_at"], result["fire_ms_at"]
    return [
        ("drain, one worker", f"{result['drain_events_s']:,.0f}/s", "the same SQL, one client",
         f"{result['limit_events_s']:,.0f}/s", ratios["drain"]),
        ("drain, two workers", f"{result['drain_two_workers_events_s']:,.0f}/s", "the same SQL, two clients",
         f"{result['limit_two_clients_events_s']:,.0f}/s", ratios["drain_two_workers"]),
        ("", "", "one worker", f"{result['drain_events_s']:,.0f}/s", ratios["two_workers"]),
        ("emit and commit", f"{result['emit_tx_s']:,.0f}/s", "two INSERTs and COMMIT",
         f"{result['emit_limit_tx_s']:,.0f}/s", ratios["emit"]),
        ("commit to handler, p50 / p95 / p99", _shares(result["latency_ms"]), "raw LISTEN",
         _shares(result["latency_raw_listen_ms"]), ratios["latency"]),
        ("due to handler, p50 / p95 / p99", _shares(result["lateness_ms"]), "a bare client's commits",
         _shares(result["lateness_bare_client_ms"]), ratios["lateness"]),
        ("", "", "APScheduler, in memory", _shares(result["lateness_in_memory_ms"]), None),
        ("claim 100, 1 m rows not due", f"{claims['1m']:.2f} ms", "claim 100, 10 k not due",
         f"{claims['10k']:.2f} ms", ratios["claim"]),
        ("fire 100, 1 m schedules to come", f"{fires['1m']:.2f} ms", "fire 100, 10 k to come",
         f"{fires['10k']:.2f} ms", ratios["fire"]),
    ]  # fmt: skip


def _shares(found: dict[str, float]) -> str:
    return f"{found['p50']} / {found['p95']} / {found['p99']} ms"


def capture_rows(result: dict[str, object]) -> list[Row]:
    without, of_update = result["save_without_triggers_ms"], result["update_50k_without_triggers_ms"]
    return [
        ("save of a row that a plan follows", f"{result['save_ms']:.2f} ms", "without triggers", f"{without:.2f} ms",
         result["save_times"]),
        ("update() of 50,000 such rows", f"{result['update_50k_ms']:,.0f} ms", "without triggers",
         f"{of_update:,.0f} ms", result["update_50k_times"]),
        ("plan these 50,000 changes", f"{result['plan_50k_changes_ms'] / 1000:.1f} s", "", "", None),
        ("save of a row that is audited", f"{result['audited_save_ms']:.2f} ms", "not audited",
         f"{result['audited_save_without_ms']:.2f} ms", result["audited_save_times"]),
        ("update() of 50,000 such rows", f"{result['audited_update_50k_ms']:,.0f} ms", "not audited",
         f"{result['audited_update_50k_without_ms']:,.0f} ms", result["audited_update_50k_times"]),
    ]  # fmt: skip


def retention_rows(result: dict[str, object]) -> list[Row]:
    removed = f"{result['prune_removed']:,} of {result['prune_old_events']:,}"
    return [
        ("drain while old events are pruned", f"{result['prune_drain_beside_s']:,.0f}/s", "not pruned",
         f"{result['prune_drain_alone_s']:,.0f}/s", result["prune_share"]),
        ("events pruned meanwhile", f"{removed}, {result['prune_events_s']:,.0f}/s", "", "", None),
        ("longest wait for a lock", f"{result['prune_longest_wait_ms']} ms", "", "", None),
    ]  # fmt: skip


def engine_rows(result: dict[str, object]) -> list[Row]:
    return [
        ("drain, atomic handler, one row", f"{result['drain_atomic_events_s']:,.0f}/s", "", "", None),
        ("idle worker", f"{result['idle_cpu_percent']} % of a core, {result['rss_mb']} MB", "", "", None),
    ]


def time_rows(result: dict[str, object]) -> list[Row]:
    people = f"{result['people']:,} anniversaries"
    return [
        ("10,000 due at once, committed", f"{result['crowd_committed_s']} s", "", "", None),
        ("10,000 due at once, handled", f"{result['crowd_handled_s']} s", "", "", None),
        (f"sync {people}", f"{result['sync_s']} s", "INSERT ... SELECT of them",
         f"{result['sync_limit_s']} s", result["sync_s"] / result["sync_limit_s"]),
        ("the same again, nothing changed", f"{result['sync_again_s']} s", "", "", None),
        ("a zone moves, re-planned", f"{result['rezoned']:,} in {result['rezone_s']} s", "", "", None),
    ]  # fmt: skip


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


def audit_rows(result: dict[str, object]) -> list[Row]:
    return [
        (f"verify {result['audit_entries']:,} audit entries", f"{result['audit_verify_s']} s", "", "", None),
        ("seal audit entries, one worker", f"{result['audit_seal_s']:,}/s", "", "", None),
        ("record one and commit", f"{result['audit_record_s']:,}/s", "", "", None),
        ("the same, 8 writers of one organization", f"{result['audit_record_together_s']:,}/s", "", "", None),
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
