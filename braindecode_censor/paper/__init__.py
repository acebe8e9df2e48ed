"""The paper's AutoTransfer: grid, experiment, selection rules, probes and report; a client of ``run``."""
