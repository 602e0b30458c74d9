"""Events become pictures: a run as one self-contained page, with its graph and its boxes drawn."""
