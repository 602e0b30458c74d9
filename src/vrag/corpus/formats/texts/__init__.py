"""Shared parts of the converters of text: tables as lines of text, visible parts of HTML, raised marks."""
