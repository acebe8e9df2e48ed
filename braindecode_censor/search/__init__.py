"""The search for the best decoder: candidates, folds, the queue, held-out probabilities and ensemble weights."""
