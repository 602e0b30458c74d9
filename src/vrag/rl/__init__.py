"""Training by reinforcement and supervision: rows, advantages, losses, updates, checkpoints and curves."""
