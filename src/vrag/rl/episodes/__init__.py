"""Episodes: rollouts for trainers that own the model, and their options."""
