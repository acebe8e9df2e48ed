"""Search by Optuna instead of a grid: continuous weights, on the same split."""

import json
import platform
import warnings
from hashlib import sha256
from urllib.parse import parse_qsl, quote, unquote

from braindecode_censor.paper.grid import expand
from braindecode_censor.paper.jobs import Job
from braindecode_censor.paper.tables import break_seal, seal, was_changed
from braindecode_censor.penalties.options import Choice, is_wanted, search_space_of

__all__ = ["hide_password", "open_study", "propose", "search"]

_JOURNAL = "optuna.journal"


def propose(trial, method):
    """Turn a trial of Optuna into a setting."""
    entry = {"method": method}
    for name, search in search_space_of(method).items():
        if not is_wanted(search, entry):
            continue
        if isinstance(search, Choice):
            entry[name] = trial.suggest_categorical(name, list(search.values))
        else:
            entry[name] = _round(trial.suggest_float(name, search.low, search.high, log=search.log))
    return expand([entry])[0]


def search(experiment, progress):
    """Return the best settings of each method of the experiment's grid.

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
    if experiment.storage is None:
        _check_journal(experiment.out)
    studies = {method: open_study(experiment, method) for method in methods}
    with progress.stage("search with Optuna", experiment.trials * len(methods)) as report:
        while open_methods := [m for m in methods if _n_done(studies[m]) < experiment.trials]:
            trials = {}
            for method in open_methods:
                study = studies[method]
                study.sampler = _sampler(seed + _n_done(study), experiment.storage)
                trials[method] = study.ask()
                trials[method].set_user_attr("owner", _owner(experiment))
            jobs = {m: Job(propose(trial, m), seed, data.all_subjects[0]) for m, trial in trials.items()}
            found = experiment.backend.run(
                list(jobs.values()),
                data,
                experiment.training,
                experiment.cache,
                report,
                trials={jobs[method]: trial for method, trial in trials.items()},
            )
            for method, job in jobs.items():
                _tell(studies[method], trials[method], found[job])
    values = {}
    for method, study in studies.items():
        for trial in study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
            setting = propose(optuna.trial.FixedTrial(trial.params), method)
            values[Job(setting, seed, data.all_subjects[0])] = trial.value
    if experiment.storage is None:
        records = experiment.backend.run(list(values), data, experiment.training, experiment.cache)
        seal(experiment.out, _JOURNAL)
    else:  # other machines may have trained them, and only their scores are here
        valid = data.successor(data.all_subjects[0])
        records = {job: {"valid_score": value, "valid_subject": valid} for job, value in values.items()}
    return experiment.keep_best(records)


def _check_journal(out):
    """Refuse a journal that was changed after its search was over; one of an unfinished search grows from now on."""
    if was_changed(out, _JOURNAL):
        raise ValueError(
            f"{out / _JOURNAL} is not what was written: restore it, or delete it to repeat the search (finished "
            "trainings are read, not repeated)."
        )
    break_seal(out, _JOURNAL)


def open_study(experiment, method):
    """Open or create the study of a method; what a killed run of this experiment left open is asked again."""
    optuna = _import_optuna()
    identity = experiment.identity()
    # what decides about a trial's score: more trials or seeds go on with the same study
    parts = [identity[name] for name in ("dataset_code", "data", "training", "versions")]
    digest = sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
    try:
        study = optuna.create_study(
            study_name=f"{digest}-{experiment.seeds[0]}-{method}",
            storage=_open_storage(experiment),
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=5),
            load_if_exists=True,
        )
    except Exception as error:  # SQLAlchemy's many, missing database drivers, a journal that is no journal
        place = experiment.storage or str(experiment.out / _JOURNAL)
        text = hide_password(f"storage={place!r} cannot be opened: {error}", place)
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


def hide_password(text, address):
    """Return a text without the credentials of an address that it may quote."""
    _, _, rest = address.partition("://")
    secrets = [rest.rpartition("@")[0].partition(":")[2]]
    secrets += [value for name, value in parse_qsl(address.partition("?")[2]) if "pass" in name.lower()]
    for secret in filter(None, secrets):
        for spelling in (secret, unquote(secret), quote(secret, safe="")):
            text = text.replace(spelling, "***")
    return text


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
