"""The names of the samples that Prometheus scrapes."""

from __future__ import annotations

from duebox.context.metrics import COUNTERS, HISTOGRAMS
from duebox.observe.metrics.gauges import GAUGES
from duebox.observe.metrics.prometheus import family_name


def sample_names() -> set[str]:
    plain = {family_name(metric) for metric in (*COUNTERS, *GAUGES)}
    return plain | {f"{family_name(each)}_{end}" for each in HISTOGRAMS for end in ("bucket", "sum", "count")}
