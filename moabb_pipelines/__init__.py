"""MOABB pipeline definitions (YAML), shipped as package data."""
