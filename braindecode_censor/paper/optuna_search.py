"""Search by Optuna instead of a grid: continuous weights, on the same split."""

import json
import platform
import warnings

from braindecode_censor.paper.cluster import hide_password
from braindecode_censor.paper.grid import expand
from braindecode_censor.paper.trainings import as_row, make_training
from braindecode_censor.penalties.options import Choice, is_wanted, search_space_of
from braindecode_censor.storage.seal import digest
from braindecode_censor.training.rules import Prune

__all__ = ["open_study", "propose", "search"]

_JOURNAL = "optuna.journal"


def propose(trial, method):
    """Return the configuration that a trial of Optuna stands for."""
    entry = {"method": method}
    for name, space in search_space_of(method).items():
        if not is_wanted(space, entry):
            continue
        if isinstance(space, Choice):
            entry[name] = trial.suggest_categorical(name, list(space.values))
        else:
            entry[name] = float(f"{trial.suggest_float(name, space.low, space.high, log=space.log):.3g}")
    return expand([entry])[0]


def search(experiment, client):
    """Return a configuration and a row of the table of the search per completed trial of Optuna.

    There is one study per method and one trial of each per round, so that several workers do not change what is
    proposed. A trial is pruned when its best validation accuracy so far lies below the median of the earlier ones. The
    sampler is seeded by the number of trials behind it, so a resumed study proposes the same as an undisturbed one.
    optuna-integration's callback for skorch does the same as Prune, but is one more dependency.
    """
    optuna = _import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed, data = experiment.seeds[0], experiment.data
    methods = dict.fromkeys(config.method for config in experiment.preset.grid)
    studies = {method: open_study(experiment, method) for method in methods}
    while unfinished := [m for m in studies if _count_finished(studies[m]) < experiment.n_optuna_trials]:
        trials, trainings = {}, []
        for method in unfinished:
            study = studies[method]
            study.sampler = _make_sampler(seed + _count_finished(study), experiment.storage)
            trial = study.ask()
            trial.set_user_attr("owner", _owner(experiment))
            config, test = propose(trial, method), data.all_subjects[0]
            prune = (("prune", Prune(trial)),)
            trainings.append(make_training(config, seed, test, experiment.training, data, prune))
            trials[trainings[-1]] = study, trial
        records = experiment.train(trainings, "search with Optuna", client)
        for training, record in zip(trainings, records):
            _finish_trial(*trials[training], record)
    rows = {}
    for method, study in studies.items():
        for trial in study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
            config = propose(optuna.trial.FixedTrial(trial.params), method)
            training = make_training(config, seed, data.all_subjects[0], experiment.training, data)
            record = {"valid_score": trial.value, "valid_subject": data.successor(data.all_subjects[0])}
            rows[config] = as_row(config, training, record)
    return rows


def open_study(experiment, method):
    """Open or create the study of a method, and ask again the trials that a killed run of this experiment began."""
    optuna = _import_optuna()
    identity = experiment.identity()
    # A study goes on if all is equal that decides about the score of a trial.
    deciding = [identity[name] for name in ("dataset_code", "data", "training", "versions")]
    name = digest(json.dumps(deciding, sort_keys=True).encode())[:12]
    try:
        study = optuna.create_study(
            study_name=f"{name}-{experiment.seeds[0]}-{method}",
            storage=_open_storage(experiment),
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=5),
            load_if_exists=True,
        )
    except Exception as error:  # SQLAlchemy's many, missing database drivers, a file that is no journal
        address = experiment.storage or str(experiment.out / _JOURNAL)
        text = hide_password(f"search={address!r} cannot be opened: {error}", address)
        raise ValueError(text) from None
    for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
        if trial.user_attrs.get("owner", _owner(experiment)) == _owner(experiment):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial(trial.params)
    return study


def _open_storage(experiment):
    optuna = _import_optuna()
    if experiment.storage is not None:
        return optuna.storages.get_storage(experiment.storage)
    from optuna.storages.journal import JournalFileBackend

    return optuna.storages.JournalStorage(JournalFileBackend(str(experiment.out / _JOURNAL)))


def _finish_trial(study, trial, record):
    states = _import_optuna().trial.TrialState
    reported = study.get_trials(deepcopy=False)[trial.number].intermediate_values
    for epoch, score in enumerate(record.get("history", {}).get("valid_balanced_accuracy", []), 1):
        if epoch not in reported:  # A finished training that was read reports nothing itself.
            trial.report(score, epoch)
    if "pruned" in record:
        study.tell(trial, state=states.PRUNED)
    elif "valid_score" in record:
        study.tell(trial, record["valid_score"])
    else:
        trial.set_user_attr("diverged", True)
        study.tell(trial, state=states.FAIL)


def _count_finished(study):
    # A trial that diverged counts, too; one that was killed does not.
    states = _import_optuna().trial.TrialState
    return sum(
        trial.state in (states.COMPLETE, states.PRUNED) or trial.user_attrs.get("diverged", False)
        for trial in study.get_trials(deepcopy=False)
    )


def _make_sampler(seed, storage):
    optuna = _import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # In a shared study running trials of other machines count as bad ones, so that they are not repeated.
        return optuna.samplers.TPESampler(seed=seed, constant_liar=storage is not None)


def _owner(experiment):
    return digest(f"{platform.node()}:{experiment.out.resolve()}".encode())[:16]


def _import_optuna():
    try:
        import optuna
    except ImportError:
        raise ValueError("search='optuna' needs Optuna: pip install 'braindecode-censor[search]'.") from None
    return optuna
