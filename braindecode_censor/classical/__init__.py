"""Classical candidates: features, geometry and the estimator."""
