"""The table of instruments, the page that shows it, and the files of deploy/ that name its metrics."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.app.kustomized import kustomized
from tests.app.node import ROOT

from redraft.app.telemetry.instruments import INSTRUMENTS, Instrument

MONITORING = ROOT / "deploy/monitoring"


@cache
def exported() -> dict[str, set[str]]:
    """The name in Prometheus of every sample of every instrument, with its labels."""
    registry = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(registry=registry)], shutdown_on_exit=False)
    meter = provider.get_meter("redraft")
    for each in INSTRUMENTS:
        attributes = dict.fromkeys(each.attributes, "x")
        match each.kind:
            case "counter":
                meter.create_counter(each.name, each.unit).add(1, attributes)
            case "histogram":
                meter.create_histogram(each.name, each.unit).record(1, attributes)
            case "gauge":
                meter.create_gauge(each.name, each.unit).set(1, attributes)
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    provider.shutdown()
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def in_prometheus(instrument: Instrument) -> str:
    """The name of an instrument's family in Prometheus."""
    stem = instrument.name.replace(".", "_")
    ends = {"counter": "_total", "histogram": "_count", "gauge": ""}
    (name,) = (each for each in exported() if re.fullmatch(rf"{stem}(_seconds)?{ends[instrument.kind]}", each))
    return name.removesuffix("_count") if instrument.kind == "histogram" else name


def test_the_page_has_the_table() -> None:
    lines = [
        f"| `{each.name}` | `{in_prometheus(each)}` | {each.kind} | {each.unit.strip('{}') or '—'} "
        f"| {', '.join(each.attributes) or '—'} | {each.description} |"
        for each in INSTRUMENTS
    ]
    page = (ROOT / "docs/telemetry.md").read_text()
    assert re.findall(r"^\| `redraft\..*$", page, re.MULTILINE) == lines


def queries() -> list[str]:
    """Every query in the dashboard, the alert rules and the scalers."""
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["spec"]["groups"]
    scalers = yaml.safe_load((ROOT / "deploy/scale-by-age/kustomization.yaml").read_text())["patches"]
    return [
        *(target["expr"] for panel in panels for target in panel["targets"]),
        *(rule["expr"] for group in rules for rule in group["rules"]),
        *(patch["value"]["metadata"]["query"] for each in scalers for patch in yaml.safe_load(each["patch"])),
    ]


def test_every_metric_and_label_of_the_files_is_exported() -> None:
    for query in queries():
        names = re.findall(r"\bredraft_\w+", query)
        assert names, query
        assert set(names) <= set(exported()), query
        labels = {label for found in re.findall(r"by \(([^)]*)\)", query) for label in found.split(", ")}
        labels |= set(re.findall(r"[{,](\w+)[=!]", query))
        known = set().union(*(exported()[name] for name in names))
        assert labels <= known, (query, labels - known)
        assert query.count("(") == query.count(")")


def test_every_instrument_is_on_the_dashboard() -> None:
    shown = set(re.findall(r"\bredraft_\w+", (MONITORING / "dashboard.json").read_text()))
    for each in INSTRUMENTS:
        assert any(name.startswith(in_prometheus(each)) for name in shown), each.name


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    """What `kubectl apply --kustomize deploy/scale-by-age` would send: deploy/monitoring, and what is added to it."""
    return kustomized("deploy/scale-by-age")


@pytest.mark.check
def test_kubernetes_takes_every_object_of_its_own(objects: list[dict[str, Any]]) -> None:
    own = [each for each in objects if not each["apiVersion"].startswith(("keda.sh/", "monitoring.coreos.com/"))]
    for each in own:
        kubernetes_validate.validate(each, "1.37", strict=True)
    assert {each["metadata"].get("namespace", "redraft") for each in objects} == {"redraft"}


def test_prometheus_finds_the_metrics_of_every_pod(objects: list[dict[str, Any]]) -> None:
    (service,) = (each for each in objects if each["kind"] == "Service")
    (monitor,) = (each for each in objects if each["kind"] == "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert [each["port"] for each in monitor["spec"]["endpoints"]] == [port["name"]]
    for each in (each for each in objects if each["kind"] == "Deployment"):
        template = each["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        (container,) = template["spec"]["containers"]
        assert port["targetPort"] in {named["name"] for named in container["ports"]}
        given = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert given["OTEL_METRICS_EXPORTER"] == "prometheus"
        assert given["OTEL_EXPORTER_PROMETHEUS_HOST"] == "0.0.0.0"  # noqa: S104


def test_keda_scales_each_role_by_number_and_age(objects: list[dict[str, Any]]) -> None:
    for each in (each for each in objects if each["kind"] == "ScaledObject"):
        number, age = each["spec"]["triggers"]
        _, role, actor = number["metadata"]["queueName"].split(".")
        assert f'redraft_queue_age_seconds{{role="{role}",actor="{actor}"}}' in age["metadata"]["query"]
