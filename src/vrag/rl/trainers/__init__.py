"""What changes the weights: `local` in this process, `verl` on many GPUs."""
