"""The estimator: training for people never seen, behind scikit-learn's and MOABB's interface."""

import inspect
from pathlib import Path
from typing import ClassVar

import torch

from braindecode_censor.encoders.resolve import whole_module
from braindecode_censor.training.adapt import StreamingClassifier, adapt_classifier, adapt_to_target
from braindecode_censor.training.arguments import check_arguments, check_names
from braindecode_censor.training.layers import code_of
from braindecode_censor.training.leakage import subject_leakage
from braindecode_censor.training.persistence import (
    copy_classifier,
    read_classifier,
    reduce_classifier,
    write_classifier,
)
from braindecode_censor.training.preparation import normalize_by_person
from braindecode_censor.training.protocol import _ProtocolClassifier
from braindecode_censor.training.task_loss import FoldCrossEntropy
from braindecode_censor.trials.dataset import TrialLoader, Trials, check_labels, read_signals

__all__ = ["CensoredEEGClassifier"]


class CensoredEEGClassifier(_ProtocolClassifier):
    r"""A Braindecode classifier trained not to know whose brain it looks at, for people it has never seen.

    The defaults are what worked best on recordings of many people: every person's channels normalised by the person's
    own statistics, augmented batches that hold people and classes alike, a one-cycle schedule of AdamW whose last
    weights are kept, and a small conditional penalty. ``CensoredEEGClassifier(**bc.PAPER)`` is the paper's protocol:
    every channel of every trial standardised, learning rate :math:`\alpha/\sqrt t` in epoch t, one validation subject,
    and the weights of the epoch of minimum validation loss.

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
    score_estimator, reg, lengthscale, pairs, fraction, size : str, float or None
        Options of the penalty; None is its default. `score_estimator` is the option `score`, which as an
        attribute would hide the method of that name. All other options of the penalty, such as ``hidden``, are
        taken too, and kept as ``callbacks__censor__<name>``.
    warmup : int
        Epochs over which λ rises from 0.
    critic_lr, critic_steps : float, int
        Learning rate of the critic, and its steps per batch.
    layer : str
        Layer whose input is the latent code.
    normalize : {"subject", "euclidean", "population", "trial", "trial_channel", "none"}
        How signals are made comparable, see :class:`~braindecode_censor.SubjectNormalizer`. People who are trained on
        or validate are normalised by their own statistics; ``predict`` uses those of the population, or of the person
        that :meth:`adapt` was given.
    prior : float
        How many trials the population's statistics are worth when :meth:`adapt` or :meth:`stream` estimates those of
        a new person.
    augment : str, list, dict or None
        Names of ``braindecode.augmentation`` transforms, ``{name: options}``, or transforms, applied to training
        batches. "standard" is a small shift in time, lost channels, noise and channel gains; None changes nothing.
    sampling : {"balanced", "shuffle"}
        Batches of P subjects x Q trials (in conditional mode P x K classes x Q), or plain shuffling.
    subjects_per_batch : int or None
        P; None fits as keep enough trials each.
    class_weighted : bool
        Whether to weigh the classes of the training trials by their inverse frequency.
    schedule : {"one_cycle", "inverse_sqrt", "constant"}
        How the learning rate changes, see :func:`~braindecode_censor.training.schedule.learning_rate`. A training that
        goes on (``partial_fit``) begins a new cycle.
    lr : float
        The highest learning rate.
    max_steps, max_epochs : int or None
        Training ends by whichever comes first; None is no limit, and at least one has to be given.
    keep : {"last", "ema", "best"}
        Keep the last weights, their exponential moving average (parameters and batch-norm statistics, with a decay of
        0.99 per step, see :func:`~braindecode_censor.training.rules.average_share`), or those of the epoch of minimum
        validation loss.
    valid_subject : object
        Who validates. None: nobody, all trials are trained on. A label, or a list of them: these people. "rotate": the
        successor of the subject that is missing (see :func:`~braindecode_censor.trials.splits.validation_subject`).
    all_subjects : list or None
        All subjects of the study, for "rotate" when their labels are not consecutive.
    patience : int or None
        Stop after so many epochs without a lower validation loss; None trains to the end.
    batch_norm_momentum : float or None
        Weight of a batch in the running statistics. EEGNet's own 0.01 lags a hundred steps, many epochs of a
        small dataset, so early validation losses mean little; with 0.1 it is ten. None keeps the module's.
    fast : bool
        Whether "EEGNet" is the reordered one, which gives the same numbers several times faster.
    batch_size : int
        Trials per batch.
    random_state : int or None
        Seed of everything random; None draws from torch's global generator.
    device : str
        "cpu" or "cuda".
    verbose : int
        1 prints a line per epoch.
    **kwargs
        Further arguments of :class:`braindecode.EEGClassifier`, such as ``module__F1=4``, ``callbacks`` or
        ``optimizer="SGD"``. The optimiser is AdamW with torch's weight decay of 0.01.

    Attributes
    ----------
    valid_score_ : float
        Balanced accuracy on the people who validate, of the weights that were kept; NaN if there are none.
    valid_subject_ : object
        Who validated: a label, a list of them, or None.
    best_epoch_ : int or None
        With ``keep="best"`` the epoch that was kept, from 1.
    normalizer_ : SubjectNormalizer
        Statistics of the training people, and of the person adapted to.
    classes_ : ndarray of shape (n_classes,)
        Labels as given to ``fit``; ``predict`` answers these.
    history : skorch.history.History
        Losses and leakage per epoch.

    Examples
    --------
    >>> clf = CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=0.3)
    >>> clf.fit(X, y, subjects=subjects).adapt(X_new).predict(X_new)  # doctest: +SKIP
    """

    # MOABB asks scikit-learn who wants the subject labels and the new person's trials; this is the answer.
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
        score_estimator=None,
        reg=None,
        lengthscale=None,
        pairs=None,
        fraction=None,
        size=None,
        warmup=0,
        critic_lr=1e-3,
        critic_steps=1,
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
        verbose=0,
        **kwargs,
    ):
        kwargs = check_names(kwargs, _own_names())
        self.penalty = penalty
        self.censoring = censoring
        self.weight = weight
        self.score_estimator = score_estimator
        self.reg = reg
        self.lengthscale = lengthscale
        self.pairs = pairs
        self.fraction = fraction
        self.size = size
        self.warmup = warmup
        self.critic_lr = critic_lr
        self.critic_steps = critic_steps
        self.layer = layer
        self.normalize = normalize
        self.prior = prior
        self.augment = augment
        self.sampling = sampling
        self.subjects_per_batch = subjects_per_batch
        self.class_weighted = class_weighted
        self.schedule = schedule
        self.max_steps = max_steps
        self.keep = keep
        self.valid_subject = valid_subject
        self.all_subjects = all_subjects
        self.patience = patience
        self.batch_norm_momentum = batch_norm_momentum
        self.fast = fast
        self.random_state = random_state
        # What follows is the host's business: skorch keeps these itself.
        kwargs.setdefault("criterion", FoldCrossEntropy)
        kwargs.setdefault("optimizer", torch.optim.AdamW)
        kwargs.setdefault("iterator_train", TrialLoader)
        kwargs.setdefault("iterator_valid", TrialLoader)
        kwargs.setdefault("iterator_valid__batch_size", 512)
        kwargs.setdefault("train_split", None)
        super().__init__(
            module,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            device=device,
            verbose=verbose,
            **kwargs,
        )

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
        """Train from the beginning, and adapt to a person if trials of that person are given.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of several subjects.
        y : array-like of shape (n_trials,) or None
            Classes, of any type; None takes a dataset's own targets.
        subjects : array-like of shape (n_trials,) or None
            Whose trial each one is; None takes ``metadata["subject"]`` of Epochs or
            ``description["subject"]`` of a Braindecode dataset. Without any, it raises, unless ``penalty=None`` and
            nobody validates: then all trials count as one person's.
        X_target_unlabeled : array-like of shape (n_trials, n_chans, n_times) or None
            Trials of the person who will be decoded; training does not see them, and ends with :meth:`adapt`.
        X_target_labeled, y_target_labeled : array-like or None
            The same with classes. MOABB hands over one or the other, according to its ``CrossSubjectMode``.
        **fit_params : dict
            Handed to the module's ``forward``.

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
        """Return a decoder for the person whose trials these are; this one stays as it is.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of one person; one is enough. They normalise the signals and give batch norms their statistics, both
            shrunk towards the population's, which count as `prior` trials.
        y : array-like of shape (n_trials,) or None
            Classes, if they are known: they correct the last layer too, see
            :func:`~braindecode_censor.training.adapt.correct_head`. Not every class has to occur.

        Returns
        -------
        person : CensoredEEGClassifier
            Fitted; what it answers for a trial does not depend on the trials beside it.
        """
        return adapt_classifier(self, X, y)

    def stream(self):
        """Return a decoder that adapts to a person trial by trial; this one stays as it is.

        Returns
        -------
        stream : StreamingClassifier
            With ``predict_proba`` and ``predict``. Trial n is decoded with the statistics of trials 1 .. n, shrunk
            towards the population's.
        """
        return StreamingClassifier(self)

    def partial_fit(self, X, y=None, classes=None, subjects=None, **fit_params):
        """Train on, without initialising anew.

        Classes are those of the first call, though not all of them need to occur again. Trials and their classes are
        weighed by what they are in this call. The best epoch of earlier calls stays the one to beat as the
        same trials validate, and `patience` counts the epochs of this call.

        Parameters
        ----------
        X, y : object
            As in :meth:`fit`.
        classes : None
            Unused; scikit-learn asks for it.
        subjects : array-like of shape (n_trials,) or None
            As in :meth:`fit`.
        **fit_params : dict
            Handed to the module's ``forward``.

        Returns
        -------
        self : CensoredEEGClassifier
            The fitted estimator.
        """
        if isinstance(X, Trials):  # skorch's fit ends up here, with prepared trials
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
            Whose trial each one is: then every person is normalised by the person's own statistics, as in training.
            None normalises as ``predict`` does.

        Returns
        -------
        z : ndarray of shape (n_trials, n_features)
            Input of the last layer; what is censored.
        """
        self.check_is_fitted()
        module = whole_module(self.module_).eval()
        batches = self.get_iterator(self.get_dataset(X) if subjects is None else self._by_person(X, subjects))
        return torch.cat([code_of(module, self.layer, x.to(self.device)).cpu() for x, _ in batches]).numpy()

    def _by_person(self, X, subjects):
        signals, _ = read_signals(X)
        self._check_shape(signals)
        subjects = check_labels("subjects", subjects, len(signals), "pass one label per trial.")
        return self._make_trials(normalize_by_person(self.normalizer_, signals, subjects))

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

        Every person is normalised by the person's own statistics, as in training.

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
        Path(path).write_bytes(self.to_bytes())

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
        return read_classifier(cls, Path(path).read_bytes(), path, params)


def _own_names():
    return list(inspect.signature(CensoredEEGClassifier.__init__).parameters)
