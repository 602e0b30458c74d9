"""What the converters of text share: tables as lines of text, visible parts of HTML, raised marks."""
