"""What the page viewer asks for: the text of pages with its places, words in a document, original files."""
