"""`vrag index`: collections, created, maintained, imported, exported and published."""
