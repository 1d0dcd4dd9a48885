"""Holds the spans and metrics that go to OpenTelemetry; knows its API, and its SDK in `sdk` alone. Nothing that decides
knows this package."""
