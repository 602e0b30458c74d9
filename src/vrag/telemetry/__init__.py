"""Runs as traces for OpenTelemetry."""

from vrag.telemetry.exporting import observer_from_environment

__all__ = ["observer_from_environment"]
