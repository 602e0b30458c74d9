"""How good the parts and the whole are, on questions whose answers are known."""
