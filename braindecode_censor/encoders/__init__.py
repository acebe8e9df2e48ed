"""Networks: the fast EEGNet with its parts, and names that stand for networks."""
