"""Sets up OpenTelemetry's SDK for a process of Redraft, as the variables `OTEL_*` say. No other module knows exporters.

Nothing is imported and nothing runs where they say nothing.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter
    from prometheus_client import CollectorRegistry

STOPPING: Final = 3.0
"""Seconds for the last export when a process ends."""

PORT: Final = "OTEL_EXPORTER_PROMETHEUS_PORT"
HOST: Final = "OTEL_EXPORTER_PROMETHEUS_HOST"
DEFAULT_PORT: Final = 9464
LAST_PORT: Final = 65_535

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_INSTALL: Final = "telemetry is off: install what exports it, pip install 'redraft[telemetry]'"

Warn = Callable[[str], None]


def exporters_of(signal: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the exporters for `traces` or `metrics`: those named, or OTLP if an address for it is given."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    named = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if not named:
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
        return ("otlp",) if environment.get(_ENDPOINT) or environment.get(own) else ()
    return tuple(each for each in map(str.strip, named.split(",")) if each and each != "none")


@contextmanager
def exporting(process: str, warn: Warn) -> Iterator[None]:
    """Exports spans and metrics of this process within the block, where variables `OTEL_*` ask for it.

    `warn` is told what cannot be exported; the block runs all the same. A program that has set OpenTelemetry up by
    itself keeps what it has.
    """
    traces, metrics = exporters_of("traces", os.environ), exporters_of("metrics", os.environ)
    if not traces and not metrics:
        yield
        return
    with ExitStack() as stack:
        try:
            resource = _resource(process)
            if traces:
                stack.callback(_bounded, _start_traces(resource, traces, warn))
            if metrics:
                stack.callback(_bounded, _start_metrics(resource, metrics, warn))
        except ImportError:
            warn(_INSTALL)
        except (ValueError, OSError) as error:
            warn(f"telemetry is off: {error}")
        yield


def _resource(process: str) -> Resource:
    from opentelemetry.sdk.resources import Resource

    facts = {"service.version": version("redraft"), "service.instance.id": f"{platform.node()}:{os.getpid()}"}
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({**facts} if named else {**facts, "service.name": f"redraft-{process}"})


def _start_traces(resource: Resource, names: tuple[str, ...], warn: Warn) -> Callable[[], object]:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in names:
        exporter = _span_exporter(name, warn)
        if exporter is not None:
            provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _span_exporter(name: str, warn: Warn) -> SpanExporter | None:
    match name:
        case "otlp":
            return _otlp_spans() if _by_http("TRACES", warn) else _grpc_spans()
        case "console":
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter()
        case _:
            warn(f"OTEL_TRACES_EXPORTER={name} is not known: there are otlp, console and none")
            return None


def _start_metrics(resource: Resource, names: tuple[str, ...], warn: Warn) -> Callable[[], object]:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    readers = [reader for name in names if (reader := _metric_reader(name, warn)) is not None]
    registry = None
    if "prometheus" in names:
        reader, registry = _prometheus()
        readers.append(reader)
    provider = MeterProvider(readers, resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    if registry is not None:
        _serve_metrics(registry, warn)
    return provider.shutdown


def _metric_reader(name: str, warn: Warn) -> MetricReader | None:
    match name:
        case "otlp":
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

            return PeriodicExportingMetricReader(_otlp_metrics() if _by_http("METRICS", warn) else _grpc_metrics())
        case "console":
            from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

            return PeriodicExportingMetricReader(ConsoleMetricExporter())
        case "prometheus":
            return None  # it has a registry of its own
        case _:
            warn(f"OTEL_METRICS_EXPORTER={name} is not known: there are otlp, prometheus, console and none")
            return None


def _prometheus() -> tuple[MetricReader, CollectorRegistry]:
    """Returns a reader, and where it puts its values for `/metrics`."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return PrometheusMetricReader(registry=registry), registry


def _serve_metrics(registry: CollectorRegistry, warn: Warn) -> None:
    """Serves `/metrics` on the host and port of the variables, in a thread."""
    from prometheus_client import start_http_server

    host, port = os.environ.get(HOST) or "localhost", os.environ.get(PORT) or str(DEFAULT_PORT)
    if not port.isdecimal() or int(port) > LAST_PORT:
        warn(f"/metrics is not served: {PORT}={port} is no port")
        return
    try:
        start_http_server(int(port), host, registry)
    except OSError as error:
        warn(f"/metrics is not served on {host}:{port}: {error.strerror or error}; set {PORT} to another port")


def own_port(number: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable that gives the process of this number, of several on one machine, a port for `/metrics`."""
    first = environment.get(PORT) or str(DEFAULT_PORT)
    if "prometheus" not in exporters_of("metrics", environment) or not first.isdecimal():
        return {}
    return {PORT: str(int(first) + number)}


def _by_http(signal: str, warn: Warn) -> bool:
    """Returns whether OTLP goes over HTTP, not over gRPC."""
    own = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL")
    protocol = own or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol not in ("http/protobuf", "grpc"):
        warn(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not supported: http/protobuf is used; there is grpc too")
    return protocol != "grpc"


def _otlp_spans() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _otlp_metrics() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


def _grpc_spans() -> SpanExporter:
    with _grpc_needed():
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    return OTLPSpanExporter()


def _grpc_metrics() -> MetricExporter:
    with _grpc_needed():
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    return OTLPMetricExporter()


@contextmanager
def _grpc_needed() -> Iterator[None]:
    """Raises ValueError with the remedy where the exporter for gRPC is not installed."""
    try:
        yield
    except ModuleNotFoundError:
        raise ValueError("OTLP over gRPC needs its exporter: pip install 'redraft[telemetry-grpc]'") from None


def _bounded(stop: Callable[[], object]) -> None:
    """Stops an exporter; goes on without it when its server does not answer."""
    stopping = Thread(target=stop, name="redraft-telemetry", daemon=True)
    stopping.start()
    stopping.join(STOPPING)
