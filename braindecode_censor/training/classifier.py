"""The estimator: the paper's training protocol behind scikit-learn's and MOABB's interface."""

from typing import ClassVar

import torch

from braindecode_censor.training.leakage import leakage
from braindecode_censor.training.persistence import load_classifier, save_classifier
from braindecode_censor.training.protocol import _ProtocolClassifier
from braindecode_censor.training.task_loss import FoldCrossEntropy
from braindecode_censor.trials.dataset import TrialLoader, Trials

__all__ = ["CensoredEEGClassifier"]


class CensoredEEGClassifier(_ProtocolClassifier):
    r"""A Braindecode classifier trained not to know whose brain it looks at.

    Follows the paper's protocol: EEGNet with one linear layer on top, every channel of every trial
    standardised, cross-entropy weighted by class, AdamW with learning rate :math:`\alpha/\sqrt t` in epoch t,
    one validation subject, and the weights of the epoch of minimum validation loss.

    Parameters
    ----------
    module : str, type or nn.Module
        Name of a Braindecode model with a ``final_layer``, or such a model. "EEGNetv4" means "EEGNet".
    penalty : {"adv", "mige", "mmd", "pairmmd", "began"} or None
        Censoring method; None trains without censoring, by the same protocol.
    censoring : {"marginal", "conditional", "complementary"}
        Censoring mode.
    weight : float
        The paper's λ; 0 trains as without a penalty and only monitors.
    score_estimator, reg, lengthscale, pairs, fraction, size : str, float or None
        Options of the penalty; None is its default. `score_estimator` is the option `score`, which as an
        attribute would hide the method of that name. Others: ``callbacks__censor__<name>``.
    warmup : int
        Epochs over which λ rises from 0.
    critic_lr, critic_steps : float, int
        Learning rate of the critic, and its steps per batch.
    layer : str
        Layer whose input is the latent code.
    sampling : {"balanced", "shuffle"}
        Batches of P subjects x Q trials (in conditional mode P x K classes x Q), or plain shuffling.
    subjects_per_batch : int or None
        P; None fits as many as keep enough trials each.
    standardize : bool
        Whether to standardise each channel of each trial.
    class_weighted : bool
        Whether to weigh the classes of the training trials by their inverse frequency.
    valid_subject : object
        "rotate": the successor of the subject that is missing (see
        :func:`~braindecode_censor.trials.splits.validation_subject`). A label: that subject. None: no validation,
        all epochs on all trials.
    roster : list or None
        All subjects of the study, when their labels are not consecutive.
    patience : int or None
        Stop after so many epochs without a lower validation loss; None trains all epochs, as in the paper.
    batch_norm_momentum : float or None
        Weight of a batch in the running statistics. EEGNet's own 0.01 lags a hundred steps, many epochs of a
        small dataset, so early validation losses mean little; with 0.1 it is ten. None keeps the module's.
    fast : bool
        Whether "EEGNet" is the reordered one, which gives the same numbers several times faster.
    lr : float
        Learning rate of the first epoch.
    max_epochs, batch_size : int
        Epochs at most, and trials per batch.
    random_state : int or None
        Seed of everything random; None draws from torch's global generator.
    device : str
        "cpu" or "cuda".
    verbose : int
        1 prints a line per epoch.
    **kwargs
        Further arguments of :class:`braindecode.EEGClassifier`, such as ``module__F1=4`` or ``callbacks``.

    Attributes
    ----------
    valid_score_ : float
        Balanced accuracy on the validation subject, of the weights that were kept.
    valid_subject_, best_epoch_ : object, int
        The validation subject, and the epoch that was kept, from 1.
    classes_ : ndarray of shape (n_classes,)
        Labels as given to ``fit``; ``predict`` answers these.
    history : skorch.history.History
        Losses and leakage per epoch.

    Examples
    --------
    >>> clf = CensoredEEGClassifier(penalty="mmd", censoring="conditional", weight=10.0)
    >>> clf.fit(X, y, subjects=subjects).predict_proba(X_new)  # doctest: +SKIP
    """

    # MOABB asks scikit-learn who wants the subject labels; this is the answer.
    __metadata_request__fit: ClassVar = {"subjects": True}
    __metadata_request__partial_fit: ClassVar = {"subjects": True}

    def __init__(
        self,
        module="EEGNet",
        penalty="mmd",
        censoring="marginal",
        weight=1.0,
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
        sampling="balanced",
        subjects_per_batch=None,
        standardize=True,
        class_weighted=True,
        valid_subject="rotate",
        roster=None,
        patience=None,
        batch_norm_momentum=0.1,
        fast=True,
        lr=1e-3,
        max_epochs=500,
        batch_size=64,
        random_state=0,
        device="cpu",
        verbose=0,
        **kwargs,
    ):
        vars(self).update(penalty=penalty, censoring=censoring, weight=weight, warmup=warmup, layer=layer)
        vars(self).update(score_estimator=score_estimator, reg=reg, lengthscale=lengthscale)
        vars(self).update(pairs=pairs, fraction=fraction, size=size)
        vars(self).update(critic_lr=critic_lr, critic_steps=critic_steps)
        vars(self).update(sampling=sampling, subjects_per_batch=subjects_per_batch, roster=roster)
        vars(self).update(standardize=standardize, class_weighted=class_weighted, fast=fast)
        vars(self).update(valid_subject=valid_subject, patience=patience, random_state=random_state)
        vars(self).update(batch_norm_momentum=batch_norm_momentum)
        defaults = {
            "criterion": FoldCrossEntropy,
            "optimizer": torch.optim.AdamW,
            "iterator_train": TrialLoader,
            "iterator_valid": TrialLoader,
            "iterator_valid__batch_size": 512,
            "train_split": None,
        }
        super().__init__(
            module,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            device=device,
            verbose=verbose,
            **{**defaults, **kwargs},
        )

    def fit(self, X, y=None, subjects=None, **fit_params):
        """Train from the beginning.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of several subjects.
        y : array-like of shape (n_trials,) or None
            Classes, of any type; None takes a dataset's own targets.
        subjects : array-like of shape (n_trials,) or None
            Whose trial each one is; None takes ``metadata["subject"]`` of Epochs or
            ``description["subject"]`` of a Braindecode dataset, and raises if there is none.
        **fit_params : dict
            Handed to the module's ``forward``.

        Returns
        -------
        self : CensoredEEGClassifier
            The fitted estimator.
        """
        goes_on = self.warm_start and self._was_fitted
        with self._seeded(goes_on):
            trials, codes = self._prepare(X, y, subjects, goes_on)
            super().fit(trials, codes, **fit_params)
        return self

    def partial_fit(self, X, y=None, classes=None, subjects=None, **fit_params):
        """Train on, without initialising anew.

        Classes are those of the first call, though not all of them need to occur again. Trials and their classes are
        weighed by what they are in this call. The best epoch of earlier calls stays the one to beat as long as the
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
        goes_on = self._was_fitted
        with self._seeded(goes_on):
            trials, codes = self._prepare(X, y, subjects, goes_on)
            return self._train(trials, codes, fit_params)

    def _train(self, X, y, fit_params):
        try:
            super().partial_fit(X, y, **fit_params)
        finally:
            self.trials_ = None  # an estimator must not carry its training data around
        best = dict(self.callbacks_)["best"]
        self.best_epoch_, self.valid_score_ = best.epoch_, best.score_
        return self

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

    def features(self, X):
        """Return the latent code z of every trial, in evaluation mode.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials.

        Returns
        -------
        z : ndarray of shape (n_trials, n_features)
            Input of the last layer; what is censored.
        """
        self.check_is_fitted()
        # Not the compiled module: it would not notice a new hook.
        module = getattr(self.module_, "_orig_mod", self.module_).eval()
        found = []
        hook = module.get_submodule(self.layer).register_forward_pre_hook(
            lambda layer, inputs: found.append(inputs[0].flatten(1).cpu())
        )
        try:
            with torch.no_grad():
                for x, _ in self.get_iterator(self.get_dataset(X)):
                    module(x.to(self.device))
        finally:
            hook.remove()
        return torch.cat(found).numpy()

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

    def leakage(self, X, y, subjects, **options):
        """Report how well fresh probes can tell subjects apart from the latent code.

        Parameters
        ----------
        X : array-like, mne.Epochs or Dataset of shape (n_trials, n_chans, n_times)
            Trials of several subjects.
        y, subjects : array-like of shape (n_trials,)
            Classes and subjects.
        **options
            Options of :func:`braindecode_censor.training.leakage.leakage`.

        Returns
        -------
        report : pandas.DataFrame
            One row per probe and view; in complementary mode also per half.
        """
        options = {"halves": self.censoring == "complementary", **options}
        return leakage(self.features(X), y, subjects, **options)

    def save(self, path):
        """Write the fitted estimator to one safetensors file, without pickle.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        save_classifier(self, path)

    @classmethod
    def load(cls, path, **params):
        """Read an estimator that :meth:`save` wrote; no code in the file is executed, for there is none.

        Parameters
        ----------
        path : str or path-like
            File to read.
        **params
            Constructor arguments to change, such as ``device``. A `module` that was no name, and arguments of
            it that are classes or functions, have to be passed again: a file without code cannot hold them.

        Returns
        -------
        clf : CensoredEEGClassifier
            Ready to predict.
        """
        return load_classifier(cls, path, **params)
