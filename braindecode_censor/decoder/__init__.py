"""The decoder for a new subject: what AutoTransferClassifier fits, saves and adapts."""
