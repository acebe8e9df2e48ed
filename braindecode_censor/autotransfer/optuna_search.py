"""Search by Optuna instead of a grid: continuous weights, on the same split."""

from braindecode_censor.autotransfer.grid import expand
from braindecode_censor.autotransfer.work import Job

__all__ = ["WEIGHTS", "propose", "search"]

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
        Knows data, seeds and how many trials.
    progress : Progress
        Shows how far it is.

    Returns
    -------
    settings : list of Setting
        At most ``experiment.top`` of each method.

    Notes
    -----
    One study per method, one trial of each per round, so that several jobs have work without changing what is
    proposed. Nothing but the trainings is stored: after a crash the studies are asked anew from the first
    trial, finished trainings answer at once with the same numbers, and so the proposals are the same.
    """
    try:
        import optuna
    except ImportError:
        raise ValueError("search='optuna' needs Optuna: pip install 'braindecode-censor[search]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seed = experiment.seeds[0]
    methods = list(dict.fromkeys(setting.method for setting in experiment.preset.grid))
    studies = {
        method: optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        for method in methods
    }
    records, data = {}, experiment.recording
    with progress.stage("search with Optuna", experiment.trials * len(methods)) as report:
        for _ in range(experiment.trials):
            trials = {method: study.ask() for method, study in studies.items()}
            jobs = {m: Job(propose(trial, m), seed, data.roster[0]) for m, trial in trials.items()}
            found = experiment.backend.run(
                list(jobs.values()), data, experiment.training, experiment.memory, report
            )
            for method, job in jobs.items():
                score = found[job].get("valid_score")
                failed = optuna.trial.TrialState.FAIL
                studies[method].tell(trials[method], score, state=failed if score is None else None)
            records |= found
    return experiment.keep_best(records)


def _round(value):
    return float(f"{value:.3g}")
