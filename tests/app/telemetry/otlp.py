"""Receivers of OTLP over HTTP and gRPC that are not ours: messages and services are those of opentelemetry-proto."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


class Received(NamedTuple):
    """A span as it came; ids are hex, `parent` is empty for the first of a trace, `links` are span ids."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    failed: bool
    links: tuple[str, ...]
    facts: dict[str, Any]


class Receiver:
    """`spans` are all that came, `metrics` the attributes of the last points of each metric, `raw` all bytes."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.metrics: dict[str, list[dict[str, Any]]] = {}
        self.raw = b""
        self.url = ""

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def of(self, trace: str) -> list[Received]:
        return [span for span in self.spans if span.trace == trace]

    def take(self, path: str, body: bytes) -> None:
        self.raw += body
        if path == "/v1/traces":
            self._take_spans(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        else:
            raise AssertionError(path)

    def _take_spans(self, request: Any) -> None:
        for resource in request.resource_spans:
            service = _facts(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    times = span.start_time_unix_nano, span.end_time_unix_nano
                    links = tuple(link.span_id.hex() for link in span.links)
                    failed = span.status.code == 2
                    facts = _facts(span.attributes)
                    self.spans.append(Received(service, span.name, *ids, *times, failed, links, facts))

    def _take_metrics(self, request: Any) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = getattr(metric, metric.WhichOneof("data")).data_points
                    self.metrics[metric.name] = [_facts(point.attributes) for point in points]


def _facts(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each) for each in attributes}


def _value(attribute: KeyValue) -> Any:
    return getattr(attribute.value, str(attribute.value.WhichOneof("value")))


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Receives until the end of the block."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.take(self.path, gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def grpc_receiver() -> Iterator[Receiver]:
    """Receives by gRPC until the end of the block."""
    made = Receiver()

    class Traces(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - its name in the service
            made._take_spans(request)
            return ExportTraceServiceResponse()

    class Metrics(MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - its name in the service
            made._take_metrics(request)
            return ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(Traces(), server)
    add_MetricsServiceServicer_to_server(Metrics(), server)
    made.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield made
    finally:
        server.stop(1).wait(10)
