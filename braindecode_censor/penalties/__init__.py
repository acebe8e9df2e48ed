"""Penalties on the subject information in a latent code."""
