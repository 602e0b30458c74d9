"""Small corpora of real PDF files with questions, gold pages and gold boxes, made from templates.

For tests, and for models small enough to be trained on a CPU. The same options make the same bytes.
"""

from vrag.synthesis.corpus import Corpus, SynthesisOptions, synthesize
from vrag.synthesis.corpus_folder import write
from vrag.synthesis.template import DocumentDraft, DocumentTemplate, Supply, TemplateQuestion
from vrag.synthesis.templates import TEMPLATES
from vrag.synthesis.vocabulary import COLOURS, WORDS, Words

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
