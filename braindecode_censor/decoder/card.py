"""The model card: what a decoder was made of, what to expect of it, and what it cannot do, as Markdown."""

__all__ = ["write_card"]

_TIERS = {
    "none": "nothing is known of the new person",
    "unlabeled": "unlabelled trials of the new person are there: call `adapt(X)` first",
    "labeled": "a few labelled trials of the new person are there: call `adapt(X, y)` first",
}


def write_card(clf):
    """Return the model card of a fitted classifier."""
    heldout, signals = clf.heldout_, clf.input_
    names = "unknown" if signals.ch_names is None else ", ".join(signals.ch_names)
    rate = "unknown" if signals.sfreq is None else f"{signals.sfreq:g} Hz"
    parts = [
        "# A decoder for the next person",
        "",
        "## Data",
        f"* {clf.n_trials_} trials of {len(clf.subjects_)} people",
        f"* {signals.n_chans} channels x {signals.n_times} samples, sampling rate {rate}; channels: {names}",
        f"* classes: {', '.join(map(str, clf.classes_))}; chance level {1 / len(clf.classes_):.3f}",
        "",
        "## What to expect",
        f"Tier `{clf.target}`: {_TIERS[clf.target]}.",
        "",
        _expected(heldout),
        "",
        "| person | balanced accuracy |",
        "|---|---|",
        *(f"| {person} | {score:.3f} |" for person, score in heldout.scores.items()),
        "",
        _nested(heldout),
        "",
        "## What it is",
        f"The weighted average of {len(clf.ensemble_.models)} models, each trained without two of the people.",
        "",
        _table(clf.leaderboard_),
        "",
        "## Limits",
        *(f"* {warning}." for warning in heldout.warnings),
        *(f"* {name} failed and was left out: {error}" for name, error in clf.errors_.items()),
        "* It was judged on people recorded like those it was trained on: other devices, montages or tasks are not "
        "covered by these numbers.",
        "* Adaptation shifts what it sees towards the trials it is given: a block that holds one class only shifts it "
        "wrongly.",
        "",
        "## Versions",
        *(f"* {name} {version}" for name, version in clf.versions_.items()),
        "",
    ]
    return "\n".join(parts)


def _expected(heldout):
    if not heldout.scores:
        return "Nobody was tested, so nothing can be expected."
    text = (
        f"Balanced accuracy {heldout.mean:.3f} in the mean over {len(heldout.scores)} people, lower quartile "
        f"{heldout.lower_quartile:.3f}. The next person's should lie between {heldout.low:.3f} and "
        f"{heldout.high:.3f} ({heldout.level:.0%} interval)."
    )
    if heldout.gain:
        gain = heldout.gain
        text += (
            f" Gain over `{gain['over']}`: {gain['mean']:+.3f} "
            f"({heldout.level:.0%} interval {gain['low']:+.3f} to {gain['high']:+.3f})."
        )
    return text


def _nested(heldout):
    if heldout.strict:
        return (
            "Every person's score comes from models, choices and weights that were made without this person."
        )
    return (
        "Every person's score comes from models and weights that were made without this person. Which candidates "
        "were trained further was decided by everybody's scores."
    )


def _table(leaderboard):
    lines = ["| candidate | mean | lower quartile | weight | trainings |", "|---|---|---|---|---|"]
    for row in leaderboard.itertuples():
        weight = "" if row.weight != row.weight else f"{row.weight:.2f}"
        trainings = "" if row.trainings != row.trainings else f"{row.trainings:.0f}"
        lines.append(
            f"| {row.candidate} | {row.mean:.3f} | {row.lower_quartile:.3f} | {weight} | {trainings} |"
        )
    return "\n".join(lines)
