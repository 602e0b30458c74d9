"""What the sample corpus is made of: page sources, figures and effects."""
