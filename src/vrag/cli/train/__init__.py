"""`vrag train`: local training, rollouts, plots, and training with verl."""
