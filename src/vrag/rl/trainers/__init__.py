"""Trainers: `local` in this process, `verl` on many GPUs."""
