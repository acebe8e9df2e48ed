"""Decoding a subject whose trials arrive one by one."""

from braindecode_censor.decoder.input import read_input

__all__ = ["StreamingDecoder"]


class StreamingDecoder:
    """A decoder that adapts to a subject by the trials it decodes, without their labels."""

    def __init__(self, ensemble, input_format, classes):
        self.ensemble, self.input_, self.classes_ = ensemble, input_format, classes

    def predict_proba(self, X):
        """Return the probabilities of the next trials, in the order in which they were recorded."""
        return self.ensemble.predict_proba(read_input(X, self.input_))

    def predict(self, X):
        """Return the labels of the next trials."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
