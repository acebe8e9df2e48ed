"""Lines that load a decoder of an experiment and use it, to be copied from the report and run as they are."""

from braindecode_censor.figures.folder import Missing
from braindecode_censor.paper.tables import TableError, read_index

__all__ = ["how_to_use"]

_LINES = """\
from pathlib import Path

from braindecode_censor import CensoredEEGClassifier
from braindecode_censor.paper.probing import load_recording

folder = Path({folder!r})
clf = CensoredEEGClassifier.load(folder / "trainings" / "{key}.safetensors")

trials = load_recording(folder)  # the recording of the experiment, cut and filtered as it was
X = trials.X[trials.subjects == {subject!r}]  # trials × channels × samples; yours must be cut and filtered alike
names = {classes!r}
print([names[number] for number in clf.predict(X)])
"""


def how_to_use(results, setting):
    """Return lines that use the fold of a setting that did best on its validation subject."""
    keys = ["setting", "seed", "subject"]
    try:
        mine = results.scores[results.scores["setting"] == setting].merge(read_index(results.folder), on=keys)
    except (TableError, Missing):
        return "", ""
    if mine.empty:
        return "", ""
    best = mine.sort_values("score_valid", ascending=False, kind="stable").iloc[0]
    subject = best["subject"].item() if hasattr(best["subject"], "item") else best["subject"]
    lines = _LINES.format(
        folder=str(results.folder.resolve()),
        key=best["key"],
        subject=subject,
        classes=results.identity["classes"],
    )
    words = (
        f"Every fold's decoder is kept. This one was trained without subject {subject} and did best on its validation "
        "subject. The lines name the classes of the trials of the subject that it has never seen."
    )
    return lines, words
