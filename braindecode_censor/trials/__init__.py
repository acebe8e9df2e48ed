"""Trials and whose they are: data sets, labels, splits and batches."""
