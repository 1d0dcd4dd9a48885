"""Telemetry that cannot be exported says so in one line, and no run fails for it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import Said, called, plain

from redraft.app.telemetry.sdk import exporters_of, own_port

OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("environment", "traces", "metrics"),
    [
        ({}, (), ()),
        ({OTLP: NOWHERE}, ("otlp",), ("otlp",)),
        ({OTLP: NOWHERE, "OTEL_SDK_DISABLED": "true"}, (), ()),
        ({OTLP: NOWHERE, "OTEL_TRACES_EXPORTER": "none"}, (), ("otlp",)),
        ({"OTEL_METRICS_EXPORTER": "prometheus, otlp"}, (), ("prometheus", "otlp")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": NOWHERE}, ("otlp",), ()),
    ],
)
def test_the_variables_say_what_is_exported(
    environment: dict[str, str], traces: tuple[str, ...], metrics: tuple[str, ...]
) -> None:
    assert (exporters_of("traces", environment), exporters_of("metrics", environment)) == (traces, metrics)


def test_processes_on_one_machine_have_ports_of_their_own() -> None:
    assert own_port(2, {"OTEL_METRICS_EXPORTER": "prometheus"}) == {"OTEL_EXPORTER_PROMETHEUS_PORT": "9466"}
    given = {"OTEL_METRICS_EXPORTER": "otlp,prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "8000"}
    assert own_port(0, given) == {"OTEL_EXPORTER_PROMETHEUS_PORT": "8000"}
    assert own_port(1, {OTLP: NOWHERE}) == {}


def run(folder: Path, **settings: str) -> Said:
    (folder / "essay.md").write_text("This is a tide. It comes in.\n")
    environment = plain(REDRAFT_STORE="memory:", **settings)
    return called("run", "essay.md", "--quiet", folder=folder, environment=environment)


@pytest.mark.check
def test_a_receiver_that_is_away_costs_no_run(tmp_path: Path) -> None:
    said = run(tmp_path, **{OTLP: NOWHERE, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    assert (said.code, said.err) == (0, "")


@pytest.mark.check
def test_an_exporter_that_is_not_known_is_one_line(tmp_path: Path) -> None:
    said = run(
        tmp_path, OTEL_TRACES_EXPORTER="zipkin", OTEL_METRICS_EXPORTER="prometheus", OTEL_EXPORTER_PROMETHEUS_PORT="x"
    )
    assert said.code == 0
    assert said.err.splitlines() == [
        "redraft: OTEL_TRACES_EXPORTER=zipkin is not known: there are otlp, console and none",
        "redraft: /metrics is not served: OTEL_EXPORTER_PROMETHEUS_PORT=x is no port",
    ]


@pytest.mark.check
def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        place = {"OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1", "OTEL_EXPORTER_PROMETHEUS_PORT": port}
        said = run(tmp_path, OTEL_METRICS_EXPORTER="prometheus", **place)
    assert said.code == 0
    (line,) = said.err.splitlines()
    assert line.startswith(f"redraft: /metrics is not served on 127.0.0.1:{port}: ")


@pytest.mark.check
def test_without_the_sdk_a_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "essay.md").write_text("This is a tide.\n")
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from redraft.app.cli import main\nsys.exit(main(['run', 'essay.md', '--quiet']))\n"
    )
    environment = plain(REDRAFT_STORE="memory:", **{OTLP: NOWHERE})
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert said.stderr == "redraft: telemetry is off: install what exports it, pip install 'redraft[telemetry]'\n"
