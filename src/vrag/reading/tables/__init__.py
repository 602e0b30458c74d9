"""The tables of pages: found from ruling lines or aligned words, with their heads, captions and boxes."""
