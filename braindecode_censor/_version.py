"""The one place where the version is written."""

__version__ = "0.1.0.dev4"
