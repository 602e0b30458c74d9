"""Data for the page viewer: the text of pages with its places, words in a document, original files."""
