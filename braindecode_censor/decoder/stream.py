"""Decoding a person whose trials arrive one by one."""

from braindecode_censor.decoder.input import read_input

__all__ = ["StreamingDecoder"]


class StreamingDecoder:
    """A decoder that learns a person's statistics from the trials it decodes, without their classes."""

    def __init__(self, ensemble, format, classes):
        self.ensemble, self.input_, self.classes_ = ensemble, format, classes

    def predict_proba(self, X):
        """Decode the next trials, in the order in which they were recorded."""
        return self.ensemble.predict_proba(read_input(X, self.input_))

    def predict(self, X):
        """Return the class of the next trials."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
