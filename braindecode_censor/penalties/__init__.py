"""Penalties that measure how much a latent code tells about its subject."""
