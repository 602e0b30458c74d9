"""Checks of what `vrag` needs: environment, settings, collections, servers, models.

Each check is a result with a status, a sentence and what to do (`Check`); none raises. How a model
answers boxes is measured by `measure`, which asks nobody and can be used on answers from anywhere.
"""

from vrag.doctor.check import Check, CheckStatus
from vrag.doctor.runner import DoctorOptions, examine_all
from vrag.grounding.box_reply import parse_box
from vrag.grounding.conventions import CONVENTIONS, BoxSample, Convention, Numbers
from vrag.grounding.measurement import ConventionScore, Measurement, Scaled, measure

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
