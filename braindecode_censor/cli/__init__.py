"""The command ``autotransfer``."""
