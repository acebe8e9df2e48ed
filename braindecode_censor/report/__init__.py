"""Probes of trained decoders, and the page that reports an experiment."""
