"""Networks: the fast EEGNet and its layers, and the resolution of names."""
