"""One pass over a drawn page: which words are seen, what no word explains, and what OCR adds."""
