"""`vrag index`: collections filled, maintained, imported, exported and published."""
