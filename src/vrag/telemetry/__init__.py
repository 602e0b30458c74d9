"""Runs as traces for OpenTelemetry."""

from vrag.telemetry.exporter import observer_from_environment

__all__ = ["observer_from_environment"]
