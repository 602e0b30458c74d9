"""Measures of one question: of the run, of what it looked at, of its evidence.

Each function returns numbers by name, 0 to 1 unless stated; what cannot be measured is missing.

cost       actions of a run, and its cost
ranking    gold among search results for the question word for word, and among what the model was shown
regions    gold boxes among those that a search offers
grounding  boxes of the evidence against gold boxes
citations  documents of the evidence against those that are gold as a whole
"""
