"""MOABB datasets and paradigms, importable as :mod:`braindecode_censor.datasets`."""
