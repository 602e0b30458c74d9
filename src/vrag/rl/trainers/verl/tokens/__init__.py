"""Token ids exchanged with verl: prompts of its servers and rows of its batches."""
