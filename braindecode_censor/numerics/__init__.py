"""Kernels, length scales and score estimators: mathematics on plain tensors."""
