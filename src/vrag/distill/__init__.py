"""Supervised data from several experts: sampled, selected and exported for a trainer."""
