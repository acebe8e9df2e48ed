"""The model card in Markdown: data, expected score, candidates and limits of a decoder."""

__all__ = ["write_card"]

_TARGET_DATA = {
    "none": "none of the new subject",
    "unlabeled": "unlabelled trials of the new subject; call `adapt(X)` first",
    "labeled": "a few labelled trials of the new subject; call `adapt(X, y)` first",
}


def write_card(clf):
    """Return the model card of a fitted classifier."""
    heldout, signals = clf.heldout_, clf.input_
    names = "unknown" if signals.ch_names is None else ", ".join(signals.ch_names)
    rate = "unknown" if signals.sfreq is None else f"{signals.sfreq:g} Hz"
    parts = [
        "# A decoder for a new subject",
        "",
        "## Data",
        f"* {clf.n_trials_} trials of {len(clf.subjects_)} subjects",
        f"* {signals.n_chans} channels x {signals.n_times} samples, sampling rate {rate}; channels: {names}",
        f"* classes: {', '.join(map(str, clf.classes_))}; chance level {1 / len(clf.classes_):.3f}",
        "",
        "## Expected score",
        f"Target data `{clf.target}`: {_TARGET_DATA[clf.target]}.",
        "",
        _expected(heldout),
        "",
        "| subject | balanced accuracy |",
        "|---|---|",
        *(f"| {subject} | {score:.3f} |" for subject, score in heldout.scores.items()),
        "",
        _nested(heldout),
        "",
        "## Candidates",
        f"The weighted average of {len(clf.ensemble_.models)} models, each trained without two of the subjects.",
        "",
        _table(clf.leaderboard_),
        "",
        "## Limits",
        *(f"* {warning}." for warning in heldout.warnings),
        *(f"* {name} failed and was left out: {error}" for name, error in clf.errors_.items()),
        "* The scores hold for subjects recorded like the training subjects, not for other devices, montages or tasks.",
        "* Adaptation to a block with trials of one class only moves the statistics the wrong way.",
        "",
        "## Versions",
        *(f"* {name} {version}" for name, version in clf.versions_.items()),
        "",
    ]
    return "\n".join(parts)


def _expected(heldout):
    if not heldout.scores:
        return "No subject was tested, so there is no expected score."
    text = (
        f"Balanced accuracy {heldout.mean:.3f} in the mean over {len(heldout.scores)} subjects, lower quartile "
        f"{heldout.lower_quartile:.3f}. The score of a new subject is expected between {heldout.low:.3f} and "
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
    if heldout.nested:
        return "Every subject's score comes from models, choices and weights that were made without this subject."
    return (
        "Every subject's score comes from models and weights that were made without this subject. The candidates that "
        "were trained further were selected by the scores of all subjects."
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
