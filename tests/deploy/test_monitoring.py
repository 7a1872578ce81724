"""The dashboard and the alerts ask for metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
from itertools import chain

import pytest
import yaml

from duebox.context.metrics import COUNTERS, HISTOGRAMS
from duebox.observe.metrics.gauges import GAUGES
from duebox.observe.metrics.prometheus import family_name
from tests.deploy.commands import DEPLOY
from tests.observe.metrics.samples import sample_names

DASHBOARD = json.loads((DEPLOY / "grafana" / "duebox.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus" / "duebox.rules.yaml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SHOWN = [target["expr"] for panel in PANELS for target in panel["targets"]]
DURATION = re.compile(r"\d+(ms|[smhdwy])")
FUNCTIONS = {"absent", "max", "sum", "rate", "increase", "histogram_quantile", "by", "or"}


def names(expression):
    return set(re.findall(r"\bduebox_\w+", expression))


def words(expression):
    """All names of an expression that are no metric, no text and no duration."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\bduebox_\w+|\{[^}]*\}', " ", expression)
    return set(re.findall(r"[a-z_]\w*", bare))


def labels_of(name):
    for metric in (*COUNTERS, *GAUGES, *HISTOGRAMS):
        if name == family_name(metric) or (metric in HISTOGRAMS and name.startswith(f"{family_name(metric)}_")):
            return {*metric.labels, "le"} if name.endswith("_bucket") else {*metric.labels}
    raise AssertionError(f"{name} is not exported")


def is_balanced(expression):
    depth = 0
    for sign in expression:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        assert depth >= 0
    return depth == 0 and all(expression.count(a) == expression.count(b) for a, b in ("{}", "[]"))


@pytest.mark.parametrize("expression", [*SHOWN, *(rule["expr"] for rule in ALERTS)])
def test_an_expression_asks_for_metrics_that_are_exported_with_their_labels(expression):
    found = names(expression)
    assert found
    assert found <= sample_names()
    known = set().union(*map(labels_of, found))
    assert words(expression) - FUNCTIONS <= known
    selected = set(re.findall(r'(\w+)(?:=~|!~|!=|=)"', expression))
    assert selected <= known | {"job"}
    assert is_balanced(expression)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_all_its_parts(rule):
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Duebox[A-Za-z]+", rule["alert"])
    assert DURATION.fullmatch(rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}
    used = set(chain.from_iterable(re.findall(r"\$labels\.(\w+)", text) for text in rule["annotations"].values()))
    assert used <= set().union(*map(labels_of, names(rule["expr"])))


def test_alerts_have_names_of_their_own():
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) > 5


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    cells = [
        (x, y)
        for panel in everything
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_asks_for_the_source_of_data_instead_of_naming_one():
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "job"}
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}


def test_every_metric_is_shown_or_alerted_on():
    """One that nobody looks at is missing on the dashboard, or should not exist."""
    looked_at = set().union(*map(names, [*SHOWN, *(rule["expr"] for rule in ALERTS)]))
    every = {family_name(metric) for metric in (*COUNTERS, *GAUGES, *HISTOGRAMS)}
    unseen = {each for each in every if not any(name.startswith(each) for name in looked_at)}
    assert unseen == {"duebox_workers_listening", "duebox_audit_unsealed", "duebox_schedules_oldest_overdue_seconds"}
