"""`vrag data`: data sets of questions, converted, made and distilled."""
