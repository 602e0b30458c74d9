"""Small corpora of real PDF files with questions, gold pages and gold boxes, made from templates.

For tests, and for models small enough to be trained on a CPU. The same options make the same bytes.
"""

from vrag.synthesis.corpus import Corpus, SynthesisOptions, synthesize
from vrag.synthesis.folder import write
from vrag.synthesis.template import Draft, Question, Supply, Template
from vrag.synthesis.templates import TEMPLATES
from vrag.synthesis.words import COLOURS, WORDS, Words

__all__ = [
    "COLOURS",
    "TEMPLATES",
    "WORDS",
    "Corpus",
    "Draft",
    "Question",
    "Supply",
    "SynthesisOptions",
    "Template",
    "Words",
    "synthesize",
    "write",
]
