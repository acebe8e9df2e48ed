"""Training one decoder: the callback, the estimator and the rules of the protocol."""
