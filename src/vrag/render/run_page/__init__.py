"""The page of one run, section by section."""
