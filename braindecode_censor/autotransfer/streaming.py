"""Decoding a person whose trials arrive one by one."""

from braindecode_censor.autotransfer.decoder_input import read_input

__all__ = ["StreamingDecoder"]


class StreamingDecoder:
    """A decoder that learns a person's statistics from the trials it decodes, without their classes.

    Parameters
    ----------
    ensemble : Ensemble
        Made by ``stream``; it remembers the trials it has seen.
    format : InputFormat
        What trials have to look like.
    classes : ndarray of shape (n_classes,)
        Labels.
    """

    def __init__(self, ensemble, format, classes):
        self.ensemble, self.input_, self.classes_ = ensemble, format, classes

    def predict_proba(self, X):
        """Decode the next trials, in the order in which they were recorded.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials; those of later calls are later ones.

        Returns
        -------
        probabilities : ndarray of shape (n_trials, n_classes)
            Trial n is decoded with what trials 1 .. n tell of the person.
        """
        return self.ensemble.predict_proba(read_input(X, self.input_))

    def predict(self, X):
        """Return the class of the next trials.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            As in :meth:`predict_proba`.

        Returns
        -------
        y : ndarray of shape (n_trials,)
            Labels.
        """
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
