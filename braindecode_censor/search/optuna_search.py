"""Search by Optuna instead of a grid: continuous weights, on the same split."""

import json
import platform
import warnings
from hashlib import sha256

from braindecode_censor.search.candidates import expand
from braindecode_censor.search.jobs import Job

__all__ = ["WEIGHTS", "open_study", "propose", "search"]

#: Method -> range of λ. Lower than the paper's table: that is where it is decided on small recordings.
WEIGHTS = {
    "adv": (0.001, 1.0),
    "mige": (0.001, 1.0),
    "mmd": (0.01, 10.0),
    "pairmmd": (0.01, 10.0),
    "began": (0.001, 1.0),
}


def propose(trial, method):
    """Turn a trial of Optuna into a setting.

    Parameters
    ----------
    trial : optuna.Trial
        Asked for values.
    method : str
        Censoring method.

    Returns
    -------
    setting : Setting
        Numbers rounded to three digits, so that names stay short and unique.
    """
    entry = {"method": method}
    entry["mode"] = trial.suggest_categorical("mode", ["marginal", "conditional", "complementary"])
    entry["weight"] = _round(trial.suggest_float("weight", *WEIGHTS[method], log=True))
    if method == "mige":
        entry["score"] = trial.suggest_categorical("score", ["ssge", "nu", "tikhonov", "stein"])
        if entry["score"] != "ssge":
            entry["reg"] = _round(trial.suggest_float("reg", 1e-4, 1e-2, log=True))
            entry["lengthscale"] = trial.suggest_categorical("lengthscale", ["median", "tsne"])
    if method == "pairmmd":
        entry["pairs"] = trial.suggest_categorical("pairs", ["bernoulli", "clique"])
        entry |= {"fraction": 0.5} if entry["pairs"] == "bernoulli" else {"size": 4}
    return expand([entry])[0]


def search(experiment, progress):
    """Return the best settings of each method of the experiment's grid.

    Parameters
    ----------
    experiment : AutoTransfer
        Knows data, seeds, how many trials, and where the studies lie.
    progress : Progress
        Shows how far it is.

    Returns
    -------
    settings : list of Setting
        At most ``experiment.top`` of each method.

    Notes
    -----
    One study per method, one trial of each per round, so that several jobs have work without changing what is
    proposed. A trial is cut short when its best validation accuracy so far lies below the median of the
    method's earlier trials at the same epoch. Studies are stored: in the experiment's folder, or in a database
    that several machines share, each of which then takes its part of the trials. The sampler is seeded by the
    number of trials behind it, so a resumed study proposes what an undisturbed one would have proposed; with
    several machines the order of events decides.
    """
    optuna = _import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed, data = experiment.seeds[0], experiment.recording
    methods = list(dict.fromkeys(setting.method for setting in experiment.preset.grid))
    studies = {method: open_study(experiment, method) for method in methods}
    with progress.stage("search with Optuna", experiment.trials * len(methods)) as report:
        while open_methods := [m for m in methods if _n_done(studies[m]) < experiment.trials]:
            trials = {}
            for method in open_methods:
                study = studies[method]
                study.sampler = _sampler(seed + _n_done(study), experiment.storage)
                trials[method] = study.ask()
                trials[method].set_user_attr("owner", _owner(experiment))
            jobs = {m: Job(propose(trial, m), seed, data.roster[0]) for m, trial in trials.items()}
            found = experiment.backend.run(
                list(jobs.values()),
                data,
                experiment.training,
                experiment.memory,
                report,
                trials={jobs[method]: trial for method, trial in trials.items()},
            )
            for method, job in jobs.items():
                _tell(studies[method], trials[method], found[job])
    records = {}
    for method, study in studies.items():
        for trial in study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
            setting = propose(optuna.trial.FixedTrial(trial.params), method)
            records[Job(setting, seed, data.roster[0])] = {
                "valid_score": trial.value,
                "valid_subject": data.successor(data.roster[0]),
            }
    return experiment.keep_best(records)


def open_study(experiment, method):
    """Open or create the study of a method; what a killed run of this experiment left open is asked again.

    Parameters
    ----------
    experiment : AutoTransfer
        Its identity is part of the study's name, so experiments can share a database.
    method : str
        Censoring method.

    Returns
    -------
    study : optuna.Study
        In the experiment's folder or in the database ``experiment.storage``.
    """
    optuna = _import_optuna()
    identity = experiment.identity()
    # what decides about a trial's score: more trials or seeds go on with the same study
    parts = [identity[name] for name in ("dataset_code", "data", "training", "versions")]
    digest = sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
    if experiment.storage is None:
        from optuna.storages.journal import JournalFileBackend

        storage = optuna.storages.JournalStorage(JournalFileBackend(str(experiment.out / "optuna.journal")))
    else:
        try:
            storage = optuna.storages.get_storage(experiment.storage)
        except Exception as error:  # SQLAlchemy's many, and missing database drivers
            raise ValueError(f"storage={experiment.storage!r} cannot be opened: {error}") from None
    study = optuna.create_study(
        study_name=f"{digest}-{experiment.seeds[0]}-{method}",
        storage=storage,
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=5),
        load_if_exists=True,
    )
    for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
        if trial.user_attrs.get("owner", _owner(experiment)) == _owner(experiment):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial(trial.params)
    return study


def _tell(study, trial, record):
    state = _import_optuna().trial.TrialState
    known = study.get_trials(deepcopy=False)[trial.number].intermediate_values
    for epoch, score in enumerate(record.get("history", {}).get("valid_balanced_accuracy", []), 1):
        if epoch not in known:  # it was trained before a crash
            trial.report(score, epoch)
    score = record.get("valid_score")
    if "pruned" in record:
        study.tell(trial, state=state.PRUNED)
    else:
        if score is None:
            trial.set_user_attr("diverged", True)
        study.tell(trial, score, state=state.FAIL if score is None else None)


def _n_done(study):
    # A trial whose loss was never finite counts too: it is proposed, tried and over. One that was killed does not.
    state = _import_optuna().trial.TrialState
    trials = study.get_trials(deepcopy=False)
    return sum(
        t.state in (state.COMPLETE, state.PRUNED) or t.user_attrs.get("diverged", False) for t in trials
    )


def _sampler(seed, storage):
    optuna = _import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Others may be at work on the same study: their running trials count as bad ones, so nobody repeats them.
        return optuna.samplers.TPESampler(seed=seed, constant_liar=storage is not None)


def _owner(experiment):
    return sha256(f"{platform.node()}:{experiment.out.resolve()}".encode()).hexdigest()[:16]


def _import_optuna():
    try:
        import optuna
    except ImportError:
        raise ValueError("search='optuna' needs Optuna: pip install 'braindecode-censor[search]'.") from None
    return optuna


def _round(value):
    return float(f"{value:.3g}")
