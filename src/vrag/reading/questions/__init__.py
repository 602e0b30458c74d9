"""Questions: the kind and form of their answers, the things they name, and what they lean on."""
