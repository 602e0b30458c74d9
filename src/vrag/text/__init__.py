"""Letters and numbers of texts in the forms in which they are compared."""
