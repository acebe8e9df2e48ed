"""What a fitted decoder does: it decodes, adapts to a subject, and is saved, loaded, reported and exported."""

import copy
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from braindecode_censor._check import check_fraction
from braindecode_censor.decoder.input import missing_channels, read_input
from braindecode_censor.decoder.stream import StreamingDecoder, TrialwiseEnsemble
from braindecode_censor.decoder.taught import TaughtStream, teach_subject
from braindecode_censor.decoder.teacher import check_proportions
from braindecode_censor.run.model import find_device
from braindecode_censor.training.preparation import encode_known

__all__ = ["FittedDecoder"]


class FittedDecoder:
    """The methods of AutoTransferClassifier after ``fit``."""

    def _encode(self, y, n_trials):
        return encode_known(y, self.classes_, n_trials, "pass labels of these, or -1 for an unknown one.")

    def predict_proba(self, X):
        """Return the probability of every class; those of a trial do not depend on other trials.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one subject. Channels of Epochs are ordered by name, and missing ones estimated.

        Returns
        -------
        probabilities : ndarray of shape (n_trials, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self, "ensemble_")
        if self.target != "none" and not self.adapted_ and not getattr(self, "_warned_not_adapted", False):
            self._warned_not_adapted = True
            warnings.warn(
                f"target={self.target!r}, but the decoder is not adapted; predictions use the statistics of the "
                "training subjects. Call adapt(X) first, or fit with target='none'. In MOABB, pass "
                "a cs_mode with target data.",
                stacklevel=2,
            )
        signals = read_input(X, self.input_)
        probabilities = self._ensemble_proba(signals)
        return probabilities if self.subject_ is None else self.subject_.predict_proba(signals, probabilities)

    def _ensemble_proba(self, signals):
        if len(signals) > 1:
            return self.ensemble_.predict_proba(signals)
        trialwise = getattr(self, "_trialwise", None)
        if trialwise is None or trialwise.ensemble is not self.ensemble_:
            trialwise = self._trialwise = TrialwiseEnsemble(self.ensemble_, streams=False)
        return trialwise.predict_proba(signals)

    def predict(self, X, sure=None, undecided=-1):
        """Return the label of every trial.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one subject.
        sure : float or None
            Smallest probability with which a trial is decided; None decides all trials.
        undecided : object
            Label of other trials.

        Returns
        -------
        y : ndarray of shape (n_trials,)
            Labels as given to ``fit``.
        """
        probabilities = self.predict_proba(X)
        labels = self.classes_[probabilities.argmax(axis=1)]
        if sure is None:
            return labels
        if labels.dtype.kind != np.asarray(undecided).dtype.kind:
            labels = labels.astype(object)
        return np.where(probabilities.max(axis=1) >= check_fraction("sure", sure), labels, undecided)

    def adapt(self, X, y=None, proportions="as-trained"):
        """Return a copy of the decoder adapted to one subject.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of the target subject. Channels of Epochs that are missing are estimated from the others.
        y : array-like of shape (n_trials,) or None
            Labels, optional; -1, NaN or None for those that are unknown.
        proportions : {"as-trained", "unknown"} or dict
            Class proportions of X: those of the training subjects, unknown ones, or the share of each class. Where
            "as-trained" is far from what the trials show, a warning is given and "unknown" is used.

        Returns
        -------
        adapted : AutoTransferClassifier
            Fitted; this decoder is unchanged.
        """
        signals, adapted = read_input(X, self._general_input()), copy.copy(self)
        y_encoded = None if y is None else self._encode(y, len(signals))
        adapted._adapt(signals, y_encoded, check_proportions(proportions, self.classes_))
        adapted._limit_scores(X)
        return adapted

    def _limit_scores(self, X):
        if missing := missing_channels(X, self.input_):
            limit = f"The scores were not measured for a cap without {', '.join(missing)}"
            self.heldout_ = replace(self.heldout_, warnings=[*self.heldout_.warnings, limit])

    def _adapt(self, signals, y_encoded, proportions):
        self.ensemble_, self.adapted_ = self.general_.adapt(signals, y_encoded), True
        self.block_, self.forecast_, self.subject_ = self.ensemble_.predict_proba(signals), "unknown", None
        if self.teacher_ is not None:
            self.subject_ = teach_subject(self.teacher_, signals, self.block_, y_encoded, proportions)
            self.block_ = self.subject_.predict_proba(signals, self.block_)
            self.forecast_ = self.teacher_.forecaster.forecast(self.subject_.statistics)

    def stream(self, proportions="unknown"):
        """Return a copy of the decoder that adapts to one subject trial by trial, causally.

        Parameters
        ----------
        proportions : {"as-trained", "unknown"} or dict
            As for :meth:`adapt`, without a warning.

        Returns
        -------
        stream : StreamingDecoder
            With ``predict_proba`` and ``predict``.
        """
        input_format, proportions = self._general_input(), check_proportions(proportions, self.classes_)
        factor = self.stream_prior_
        taught = None if self.teacher_ is None else TaughtStream(self.teacher_, proportions, factor)
        ensemble = TrialwiseEnsemble(self.general_.with_prior(factor), streams=True)
        return StreamingDecoder(ensemble, input_format, self.classes_, taught)

    def _general_input(self):
        check_is_fitted(self, "ensemble_")
        if self.general_ is None:
            raise ValueError(
                "This decoder was saved for one subject: load the general one to adapt it to another."
            )
        return self.input_

    @property
    def model_card(self):
        """The model card in Markdown: data, expected scores, candidates, limits."""
        from braindecode_censor.decoder.card import write_card

        check_is_fitted(self, "ensemble_")
        return write_card(self)

    def report(self, path):
        """Write a page for those who use the decoder: expected scores, thresholds, calibration, limits.

        Parameters
        ----------
        path : str or path-like
            File to write, such as "page.html". It needs no other file.
        """
        from braindecode_censor.decoder.report import write_report

        check_is_fitted(self, "ensemble_")
        write_report(self, Path(path))

    def save(self, folder, overwrite=False):
        """Write the decoder to a folder of safetensors and JSON, without pickle.

        Parameters
        ----------
        folder : str or path-like
            Created.
        overwrite : bool
            Whether to replace an older decoder. Other files are never deleted.
        """
        from braindecode_censor.decoder.folder import write_decoder

        write_decoder(self, folder, self.model_card, overwrite)

    @classmethod
    def load(cls, folder, device="auto"):
        """Load a decoder that :meth:`save` wrote; nothing in the folder is executed.

        Parameters
        ----------
        folder : str or path-like
            The folder; a changed one is refused.
        device : str
            Device of the networks.

        Returns
        -------
        clf : AutoTransferClassifier
            Ready to predict.
        """
        from braindecode_censor.decoder.folder import read_decoder

        return read_decoder(cls, folder, find_device(device))

    def to_torch(self, part=False):
        """Return the networks of the ensemble, normalisation included, as one exported program.

        Parameters
        ----------
        part : bool
            Whether to export the networks if classical models, which cannot be exported, have most of the weight.

        Returns
        -------
        program : torch.export.ExportedProgram
            Takes signals of shape (n_trials, n_chans, n_times) and returns the networks' average probabilities.
        """
        from braindecode_censor.decoder.export import export_network

        check_is_fitted(self, "ensemble_")
        return export_network(self.ensemble_.networks(part), self.input_)

    def to_onnx(self, path, part=False):
        """Write the networks of the ensemble, normalisation included, as one ONNX file.

        Parameters
        ----------
        path : str or path-like
            File to write.
        part : bool
            As in :meth:`to_torch`.
        """
        from braindecode_censor.decoder.export import write_onnx

        check_is_fitted(self, "ensemble_")
        write_onnx(self.ensemble_.networks(part), self.input_, path)
