"""What can be measured of one question: of the run, of what it looked at, of what it shows as evidence.

Each gives a mapping from names to numbers, 0 to 1 unless said; what cannot be measured is not in it.

conduct    what a run did and cost
areas      what several boxes cover together
looking    gold pages among those that the model was shown
grounding  boxes of the evidence against gold boxes
citing     documents of the evidence against those that are gold as a whole
ranking    gold among what the search finds by the question word for word
regions    gold boxes among those that a search offers
"""
