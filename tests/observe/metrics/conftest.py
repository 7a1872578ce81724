from __future__ import annotations

import pytest

from duebox.context import metrics
from duebox.observe.metrics import push


@pytest.fixture(autouse=True)
def _fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters belong to the process; each test begins with empty ones."""
    for counter in metrics.COUNTERS:
        monkeypatch.setattr(counter, "_values", {} if counter.labels else {(): 0})
    for histogram in metrics.HISTOGRAMS:
        monkeypatch.setattr(histogram, "_counts", {})
        monkeypatch.setattr(histogram, "_sums", {})
        if not histogram.labels:
            histogram.observe(())
    monkeypatch.setattr(push, "_sent", {})
