"""Trainers: `local` and `supervised` in this process, `verl` on many GPUs."""
