"""Checks of what `vrag` needs: environment, settings, collections, servers, models.

Each check is a result with a status, a sentence and what to do (`Check`); none raises. How a model
answers boxes is measured by `measure`, which asks nobody and can be used on answers from anywhere.
"""

from vrag.doctor.examine import Check, Status
from vrag.doctor.rounds import Order, examine_all
from vrag.grounding.box_reply import parse_box
from vrag.grounding.conventions import CONVENTIONS, Convention, Numbers, Sample
from vrag.grounding.measurement import Measurement, Scaled, Score, measure

__all__ = [
    "CONVENTIONS",
    "Check",
    "Convention",
    "Measurement",
    "Numbers",
    "Order",
    "Sample",
    "Scaled",
    "Score",
    "Status",
    "examine_all",
    "measure",
    "parse_box",
]
