"""One page on the family on people held out: everything is in the file, nothing is fetched."""

import pandas as pd

from braindecode_censor.paper import html
from braindecode_censor.paper.identity import read_experiment
from braindecode_censor.paper.page import new_report, save_report
from studies.censoring.candidates import censored_table
from studies.transfer.folder import FIGURES
from studies.transfer.tiers_table import TIERS
from studies.transfer.wording import sentence

__all__ = ["leaderboard_of", "write_transfer_page"]

_TABLE = {
    "tier": "known of the person",
    "paper": "paper's protocol",
    "classical": "best classical",
    "best_one": "best one",
    "best_three": "best three, averaged",
    "mean": "family, averaged",
    "lower_quartile": "lower quartile",
    "worst": "worst",
    "gain": "gain",
    "gain_low": "gain, low",
    "gain_high": "gain, high",
}
_ABOUT = (
    "Balanced accuracy on people who were held out, averaged over seeds. Gains over the paper's protocol, which uses "
    "nothing of the person, are paired over people, with 95 % intervals. The best classical candidate is chosen by the "
    "people tested, which flatters it; the family, the best one and the best three are strictly nested."
)
_CENSORED = (
    "Every censored candidate against the same one uncensored, on the same people, pairs and seeds, with 95 % "
    "intervals over people and seeds. p is corrected for the number of rows: above 0.05, call it no gain."
)
_USE = """import braindecode_censor as bc

clf = bc.AutoTransferClassifier(target="unlabeled", candidates={candidates})
clf.fit(X, y, subjects=subjects)      # everybody who was recorded
person = clf.adapt(X_unlabelled)      # the next person
person.predict(X_new)"""


def leaderboard_of(found, tier):
    """Return every candidate and combination of one tier, the best first."""
    mine = found.scores[found.scores["target"] == tier]
    people = mine.groupby(["decoder", "kind", "subject"])["score"].mean().groupby(["decoder", "kind"])
    table = people.agg(
        mean="mean", lower_quartile=lambda scores: scores.quantile(0.25), worst="min"
    ).reset_index()
    weights = found.weights[found.weights["target"] == tier].groupby("decoder")["weight"].mean()
    table["weight"] = table["decoder"].map(weights)
    return table.sort_values("mean", ascending=False, kind="stable", ignore_index=True)


def write_transfer_page(found, figures, notes=()):
    """Write ``report.html``."""
    content = read_experiment(found.folder)
    identity = content["identity"]
    report = new_report(identity["dataset_code"])

    def add(title, parts, section=None, tags=("table",)):
        report.add_html("\n".join(parts), title=title, section=section, tags=tags)

    said = [html.items([sentence(found.table, 1 / len(identity["classes"]))], "summary")]
    said += ["<h5>Notes</h5>", html.items(notes, "notes")] if notes else []
    add("What to expect of the next person", said, tags=("summary",))
    shown = found.table.reindex(columns=list(_TABLE)).assign(tier=found.table["tier"].map(TIERS))
    add("Tiers", [html.table(shown.rename(columns=_TABLE), "tiers"), html.paragraph(_ABOUT)], "Results")
    censored = censored_table(found.scores).drop(columns="recording")
    if not censored.empty:
        shown = censored.assign(tier=censored["tier"].map(TIERS))
        add("What censoring adds", [html.table(shown, "censored"), html.paragraph(_CENSORED)], "Results")
    for name, path in figures.items():
        _, _, title, caption = FIGURES[name]
        report.add_image(path, title=title, caption=caption, section="Results", tags=("figure",))
    for tier in found.table["tier"]:
        add(
            f"Leaderboard, {TIERS[tier]}", [html.table(leaderboard_of(found, tier), f"board-{tier}")], "Tiers"
        )
    add("All people", [html.table(_people(found, identity["subjects"]), "people")], "People")
    add("How to use the decoder", [html.code(_USE.format(candidates=_kept(found)))], "Use", ("use",))
    facts = {key: value for key, value in identity.items() if key not in ("candidates", "versions")}
    values = {**content["provenance"], **facts, **identity["versions"]}
    add("Provenance", [html.facts(values, "provenance")], tags=("provenance",))
    return save_report(report, found.folder)


def _people(found, subjects):
    """One row per person: the paper's protocol, and the family in every tier."""
    means = found.scores.groupby(["decoder", "target", "subject"])["score"].mean()
    columns = {"paper's protocol": means.get(("paper", "none"))}
    columns |= {
        f"family, {TIERS[tier]}": means.get(("family, averaged", tier)) for tier in found.table["tier"]
    }
    table = pd.DataFrame({name: column for name, column in columns.items() if column is not None})
    return table.rename(index=dict(enumerate(subjects))).rename_axis("subject").reset_index()


def _kept(found):
    """Names of the candidates that the average for the next person is made of, in the tier that is shown."""
    tier = "unlabeled" if "unlabeled" in set(found.weights["target"]) else found.weights["target"].iloc[0]
    weights = found.weights[found.weights["target"] == tier].groupby("decoder")["weight"].mean()
    return weights[weights >= 0.01].sort_values(ascending=False).index.tolist()
