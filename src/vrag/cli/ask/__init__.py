"""`vrag ask`: the command, several questions at once, and the printed course of a run."""
