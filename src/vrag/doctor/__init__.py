"""Checks of what `vrag` needs: environment, settings, collections, servers, models.

The result of a check is a `Check`: a status, a sentence and a hint; no check raises. `measure` determines how
a model writes boxes; it asks no model and accepts answers from any source.
"""

from vrag.doctor.check import Check, CheckStatus
from vrag.doctor.runner import DoctorOptions, examine_all
from vrag.grounding.conventions import (
    CONVENTIONS,
    BoxSample,
    Convention,
    ConventionScore,
    Measurement,
    Numbers,
    Scaled,
    measure,
    parse_box,
)

__all__ = [
    "CONVENTIONS",
    "BoxSample",
    "Check",
    "CheckStatus",
    "Convention",
    "ConventionScore",
    "DoctorOptions",
    "Measurement",
    "Numbers",
    "Scaled",
    "examine_all",
    "measure",
    "parse_box",
]
