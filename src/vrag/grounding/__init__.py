"""Box coordinates of models: the conventions, and the measurement of the one that a model uses.

A model is asked for coloured rectangles on synthetic pages; each answer is read in every convention and
compared with what was drawn. `measure` needs no model and accepts answers from any source.
"""
