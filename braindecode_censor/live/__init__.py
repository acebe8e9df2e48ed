"""From a stream of samples to decisions: live over Lab Streaming Layer, or on a recording."""
