"""Small corpora of real PDF files with questions, gold pages and gold boxes, made from templates.

For tests, and for models small enough to be trained on a CPU. The same options make the same bytes.
"""

from vrag.synthesis.corpus import TEMPLATES, Corpus, SynthesisOptions, synthesize, write
from vrag.synthesis.sampling import COLOURS, WORDS, Words
from vrag.synthesis.templates import DocumentDraft, DocumentTemplate, Supply, TemplateQuestion

__all__ = [
    "COLOURS",
    "TEMPLATES",
    "WORDS",
    "Corpus",
    "DocumentDraft",
    "DocumentTemplate",
    "Supply",
    "SynthesisOptions",
    "TemplateQuestion",
    "Words",
    "synthesize",
    "write",
]
