"""Search over vectors: exact and approximate tiers, late interaction, and their files."""
