"""The set-up of the model on the page: what is chosen, for whom, from which servers, and what runs now."""
