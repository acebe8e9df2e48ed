"""Estimator that trains a decoder for new subjects, with scikit-learn's and MOABB's interface."""

from pathlib import Path
from typing import ClassVar

import torch

from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.storage.files import read_file, write_atomically
from braindecode_censor.training.adapt import StreamingClassifier, adapt_classifier, adapt_to_target
from braindecode_censor.training.arguments import check_arguments
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.persistence import (
    copy_classifier,
    read_classifier,
    reduce_classifier,
    write_classifier,
)
from braindecode_censor.training.protocol import _ProtocolClassifier
from braindecode_censor.trials.dataset import Trials, check_labels, read_signals
from braindecode_censor.trials.normalizations import normalize_subjects

__all__ = ["CensoredEEGClassifier"]


class CensoredEEGClassifier(_ProtocolClassifier):
    r"""Braindecode classifier with a censoring penalty, for subjects that are not in the training data.

    The defaults worked best on datasets of many subjects: the channels of every subject are normalised by the
    subject's own statistics, batches are augmented and balanced over subjects and classes, a one-cycle schedule of
    AdamW keeps the last weights, and the penalty is small and conditional. ``CensoredEEGClassifier(**bc.PAPER)`` is
    the paper's protocol: every channel of every trial standardised, learning rate :math:`\alpha/\sqrt t` in epoch t,
    one validation subject, and the weights of the epoch of minimum validation loss.

    Parameters
    ----------
    module : str, type or nn.Module
        Name of a Braindecode model with a ``final_layer``, or such a model. "EEGNetv4" means "EEGNet".
    penalty : {"adv", "mige", "mmd", "pairmmd", "began"} or None
        Censoring method; None trains without censoring, by the same protocol.
    censoring : {"marginal", "conditional", "complementary"}
        Censoring mode. With balanced batches it also decides whether they are balanced over classes ("conditional").
    weight : float
        The paper's λ; 0 trains as without a penalty and only monitors.
    penalty__<option> : object
        Options of the penalty, spelled as skorch spells nested parameters: ``penalty__score="nu"``,
        ``penalty__lengthscale``, ``penalty__reg``, ``penalty__pairs``, ``penalty__fraction``, ``penalty__size``,
        ``penalty__hidden``, ..., and those of :class:`~braindecode_censor.Censor`: ``penalty__warmup``,
        ``penalty__critic_lr`` and ``penalty__critic_steps``. None is the option's default.
    layer : str
        Layer whose input is the latent code.
    normalize : {"subject", "euclidean", "population", "trial", "trial_channel", "none"}
        Normalisation, see :class:`~braindecode_censor.SubjectNormalizer`. Training and validation subjects are
        normalised by their own statistics. ``predict`` uses those of the population, or of the subject of
        :meth:`adapt`.
    prior : float
        Number of trials that the population's statistics count as when :meth:`adapt` or :meth:`stream` estimates
        those of a new subject.
    augment : str, list, dict or None
        Names of ``braindecode.augmentation`` transforms, ``{name: options}``, or transforms, applied to training
        batches. "standard" is a small shift in time, lost channels, noise and channel gains; None changes nothing.
    sampling : {"balanced", "shuffle"}
        Batches of P subjects x Q trials (in conditional mode P x K classes x Q), or plain shuffling.
    subjects_per_batch : int or None
        P; None is the largest number that leaves enough trials for each subject.
    class_weighted : bool
        Whether to weigh the classes of the training trials by their inverse frequency.
    schedule : {"one_cycle", "inverse_sqrt", "constant"}
        Learning-rate schedule, see :func:`~braindecode_censor.training.schedule.learning_rate`. ``partial_fit``
        begins a new cycle.
    lr : float
        The highest learning rate.
    max_steps, max_epochs : int or None
        Limits of a training, of which the first one counts. None is no limit; at least one has to be a number.
    keep : {"last", "ema", "best"}
        Final weights: those of the last step, their exponential moving average (parameters and batch-norm
        statistics, with a decay of 0.99 per step), or those of the epoch of minimum validation loss.
    valid_subject : object
        Validation subject: a label or a list of labels. None trains on all subjects. "rotate" takes the successor of
        the subject that is missing (see :func:`~braindecode_censor.trials.splits.validation_subject`).
    all_subjects : list or None
        All subjects of the study, for "rotate" when their labels are not consecutive.
    patience : int or None
        Number of epochs without a lower validation loss after which training stops; None trains to the end.
    batch_norm_momentum : float or None
        Weight of a batch in the running statistics. EEGNet's own 0.01 lags a hundred steps behind, which are many
        epochs of a small dataset; 0.1 lags ten. None uses the module's.
    fast : bool
        Whether "EEGNet" computes in another order, which gives the same numbers several times faster.
    batch_size : int
        Trials per batch.
    random_state : int or None
        Seed of everything random; None draws from torch's global generator.
    device : str
        "cpu" or "cuda".
    **kwargs
        Further arguments of :class:`braindecode.EEGClassifier`, such as ``module__F1=4``, ``callbacks``,
        ``optimizer="SGD"`` or ``verbose=1``, which prints a line per epoch (default 0). The optimiser is AdamW with
        torch's weight decay of 0.01.

    Attributes
    ----------
    valid_score_ : float
        Balanced accuracy of the final weights on the validation subjects; NaN without any.
    valid_subject_ : object
        Validation subject: a label, a list of labels, or None.
    best_epoch_ : int or None
        With ``keep="best"`` the epoch of the final weights, from 1.
    normalizer_ : SubjectNormalizer
        Statistics of the training subjects, and of the subject of :meth:`adapt`.
    classes_ : ndarray of shape (n_classes,)
        Class labels as passed to ``fit``.
    history : skorch.history.History
        Losses and subject leakage per epoch.

    Examples
    --------
    >>> clf = CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=0.3)
    >>> clf.fit(X, y, subjects=subjects).adapt(X_new).predict(X_new)  # doctest: +SKIP
    """

    # MOABB reads from this which estimators take subject labels and target data.
    __metadata_request__fit: ClassVar = {
        "subjects": True,
        "X_target_unlabeled": True,
        "X_target_labeled": True,
        "y_target_labeled": True,
    }
    __metadata_request__partial_fit: ClassVar = {"subjects": True}

    def __init__(
        self,
        module="EEGNet",
        penalty="mmd",
        censoring="conditional",
        weight=0.3,
        *,
        layer="final_layer",
        normalize="subject",
        prior=5.0,
        augment="standard",
        sampling="balanced",
        subjects_per_batch=None,
        class_weighted=True,
        schedule="one_cycle",
        lr=3e-3,
        max_steps=1500,
        max_epochs=None,
        keep="last",
        valid_subject=None,
        all_subjects=None,
        patience=None,
        batch_norm_momentum=0.1,
        fast=True,
        batch_size=64,
        random_state=0,
        device="cpu",
        **kwargs,
    ):
        params = {
            name: value for name, value in locals().items() if name not in ("self", "kwargs", "__class__")
        }
        super().__init__(params, kwargs)

    def fit(
        self,
        X,
        y=None,
        subjects=None,
        X_target_unlabeled=None,
        X_target_labeled=None,
        y_target_labeled=None,
        **fit_params,
    ):
        """Train from the beginning, then adapt to a subject if target data are passed.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of several subjects.
        y : array-like of shape (n_trials,) or None
            Classes, of any type; None takes a dataset's own targets.
        subjects : array-like of shape (n_trials,) or None
            Subject of every trial; None takes ``metadata["subject"]`` of Epochs or
            ``description["subject"]`` of a Braindecode dataset. Without any, it raises, unless ``penalty=None`` and
            ``valid_subject=None``: then all trials count as those of one subject.
        X_target_unlabeled : array-like of shape (n_trials, n_chans, n_times) or None
            Trials of the target subject, which are used after training, by :meth:`adapt`.
        X_target_labeled, y_target_labeled : array-like or None
            The same with classes. MOABB passes one or the other, according to its ``CrossSubjectMode``.
        **fit_params : dict
            Arguments of the module's ``forward``.

        Returns
        -------
        self : CensoredEEGClassifier
            The fitted estimator.
        """
        check_arguments(self)
        continues = self.warm_start and self._was_fitted
        with self._seeded(continues):
            trials, codes = self._prepare(X, y, subjects, continues)
            super().fit(trials, codes, **fit_params)
        adapt_to_target(self, X_target_unlabeled, X_target_labeled, y_target_labeled)
        return self

    def adapt(self, X, y=None):
        """Return a decoder for the subject of these trials; this one does not change.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one subject; one is enough. The statistics of signals and batch norms are estimated from them
            and shrunk towards the population's, which count as `prior` trials.
        y : array-like of shape (n_trials,) or None
            Classes, which correct the last layer too, see
            :func:`~braindecode_censor.training.adapt.correct_head`. Not every class has to occur.

        Returns
        -------
        adapted : CensoredEEGClassifier
            Fitted; its probabilities of a trial do not depend on the trials beside it.
        """
        return adapt_classifier(self, X, y)

    def stream(self):
        """Return a decoder that adapts to a subject trial by trial; this one does not change.

        Returns
        -------
        stream : StreamingClassifier
            With ``predict_proba`` and ``predict``. Trial n is decoded with the statistics of trials 1 .. n, shrunk
            towards the population's.
        """
        return StreamingClassifier(self)

    def partial_fit(self, X, y=None, classes=None, subjects=None, **fit_params):
        """Continue training without initialising again.

        Classes are those of the first call, though not all of them need to occur again. Class weights and batches
        follow from the trials of this call. The best epoch of earlier calls is compared with the new ones if the
        validation trials are the same, and `patience` counts the epochs of this call.

        Parameters
        ----------
        X, y : object
            As in :meth:`fit`.
        classes : None
            Unused; scikit-learn asks for it.
        subjects : array-like of shape (n_trials,) or None
            As in :meth:`fit`.
        **fit_params : dict
            Arguments of the module's ``forward``.

        Returns
        -------
        self : CensoredEEGClassifier
            The fitted estimator.
        """
        if isinstance(X, Trials):  # skorch's fit calls this method with prepared trials.
            return self._train(X, y, fit_params)
        check_arguments(self)
        continues = self._was_fitted
        with self._seeded(continues):
            trials, codes = self._prepare(X, y, subjects, continues)
            return self._train(trials, codes, fit_params)

    def predict(self, X):
        """Return the class of every trial, as labelled in ``fit``.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials.

        Returns
        -------
        y : ndarray of shape (n_trials,)
            Labels.
        """
        self.check_is_fitted()
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def features(self, X, subjects=None):
        """Return the latent code z of every trial, in evaluation mode.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials.
        subjects : array-like of shape (n_trials,) or None
            Subject of every trial: every subject is normalised by its own statistics, as in training.
            None normalises as ``predict`` does.

        Returns
        -------
        z : ndarray of shape (n_trials, n_features)
            Input of the last layer, the latent code that is censored.
        """
        self.check_is_fitted()
        module = whole_module(self.module_).eval()
        batches = self.get_iterator(
            self.get_dataset(X) if subjects is None else self._by_subject(X, subjects)
        )
        return torch.cat([code_of(module, self.layer, x.to(self.device)).cpu() for x, _ in batches]).numpy()

    def _by_subject(self, X, subjects):
        signals, _ = read_signals(X)
        self._check_shape(signals)
        subjects = check_labels("subjects", subjects, len(signals), "pass one label per trial.")
        if self.normalizer_.strategy == "population":
            return self._make_trials(self.normalizer_.transform_lazily(signals))
        return self._make_trials(
            normalize_subjects(signals, subjects, self.normalizer_.strategy, self.normalizer_.estimator)
        )

    def transform(self, X):
        """Return :meth:`features`, under the name that scikit-learn's pipelines use.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials.

        Returns
        -------
        z : ndarray of shape (n_trials, n_features)
            Latent code.
        """
        return self.features(X)

    def subject_leakage(self, X, y, subjects, **options):
        """Report how well fresh probes can tell subjects apart from the latent code.

        Every subject is normalised by its own statistics, as in training.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of several subjects.
        y, subjects : array-like of shape (n_trials,)
            Classes and subjects.
        **options
            Options of :func:`braindecode_censor.training.leakage.subject_leakage`.

        Returns
        -------
        report : pandas.DataFrame
            One row per probe and view; in complementary mode also per half.
        """
        options = {"halves": self.censoring == "complementary", **options}
        from braindecode_censor.training.leakage import subject_leakage

        return subject_leakage(self.features(X, subjects), y, subjects, **options)

    def __deepcopy__(self, memo):
        return copy_classifier(self, memo)

    def __reduce_ex__(self, protocol):
        return reduce_classifier(self) if self._was_fitted else super().__reduce_ex__(protocol)

    def to_bytes(self):
        """Return the fitted estimator as bytes in the safetensors format, without pickle.

        Returns
        -------
        content : bytes
            Equal estimators give equal bytes.
        """
        return write_classifier(self)

    @classmethod
    def from_bytes(cls, content, **params):
        """Return the estimator whose :meth:`to_bytes` these are; no code is executed.

        Parameters
        ----------
        content : bytes
            What :meth:`to_bytes` returned.
        **params
            As in :meth:`load`.

        Returns
        -------
        clf : CensoredEEGClassifier
            Fitted estimator.
        """
        return read_classifier(cls, content, "content", params)

    def save(self, path):
        """Write the fitted estimator to one safetensors file, without pickle.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path, **params):
        """Read an estimator that :meth:`save` wrote; no code in the file is executed.

        Parameters
        ----------
        path : str or path-like
            File to read.
        **params
            Constructor arguments to change, such as ``device``. A `module` that is not a name, and its arguments
            that are classes or functions, have to be passed again: the file holds no code.

        Returns
        -------
        clf : CensoredEEGClassifier
            Fitted estimator.
        """
        return read_classifier(cls, read_file(path), path, params)
