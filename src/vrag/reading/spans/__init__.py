"""Short answers from running text: candidate spans, their features and the choice among them."""
