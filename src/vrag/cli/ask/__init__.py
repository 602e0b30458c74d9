"""`vrag ask`: the command, its preparation, and the printed course of a run."""
