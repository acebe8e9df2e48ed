"""The paper's algorithms as loops over subjects, classes and pairs, as the package documents them.

Slow on purpose: subsets are copied, every fit is separate, only labels and critics are shared with the package.
"""

import itertools
import math

import torch


def median_scale(z):
    """Median distance over distinct pairs."""
    distances = sorted(d for i in range(len(z)) for d in (z[i + 1 :] - z[i]).norm(dim=1).tolist())
    n = len(distances)
    return max((distances[(n - 1) // 2] + distances[n // 2]) / 2, 1e-6) if n else 1.0


def _gram_and_divergence(x, sigma):
    n = len(x)
    gram, h = torch.zeros(n, n, dtype=x.dtype), torch.zeros_like(x)
    for i in range(n):
        difference = x[i] - x
        gram[i] = torch.exp(-(difference**2).sum(1) / (2 * sigma**2))
        h[i] = gram[i] @ difference / sigma**2 / n
    return gram, h


def score_ssge(x, ratio):
    n = len(x)
    gram, h = _gram_and_divergence(x, median_scale(x))
    values, vectors = torch.linalg.eigh(gram / n)
    values, vectors = values.flip(0), vectors.flip(1)
    keep = max(int((values.cumsum(0) / values.sum() < ratio).sum()), 1)
    score = torch.zeros_like(x)
    for j in range(keep):
        if values[j] > 0:
            score -= torch.outer(vectors[:, j], vectors[:, j] @ h) / values[j]
    return score


def score_tikhonov(x, reg):
    n = len(x)
    gram, h = _gram_and_divergence(x, median_scale(x))
    return -n * torch.linalg.inv(gram + n * reg * torch.eye(n, dtype=x.dtype)) @ h


def score_stein(x, reg):
    return score_tikhonov(x, len(x) * reg)


def score_nu(x, reg):
    n, nu = len(x), 1.0
    gram, h = _gram_and_divergence(x, median_scale(x))
    before, g = torch.zeros_like(h), -(4 * nu + 2) / (4 * nu + 1) * h
    for t in range(2, int(1 / math.sqrt(reg)) + 2):
        u = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1)
        u /= (t + 2 * nu - 1) * (2 * t + 4 * nu - 1) * (2 * t + 2 * nu - 3)
        w = 4 * (2 * t + 2 * nu - 1) * (t + nu - 1) / ((t + 2 * nu - 1) * (2 * t + 4 * nu - 1))
        before, g = g, g + u * (g - before) - w * (h + gram @ g / n)
    return g


SCORES = {
    "ssge": lambda x: score_ssge(x, 0.95 if len(x) <= 64 else 0.99),
    "mige": lambda x: score_ssge(x, 0.99),
    "tikhonov": lambda x: score_tikhonov(x, 1e-3),
    "stein": lambda x: score_stein(x, 1e-3),
    "nu": lambda x: score_nu(x, 1e-3),
}


def classes(y):
    """Return every class in the batch, or None alone for all trials."""
    return [None] if y is None else sorted({int(c) for c in y})


def rows_of(s, y, subject, label):
    of_subject = [i for i in range(len(s)) if subject is None or int(s[i]) == subject]
    return [i for i in of_subject if label is None or int(y[i]) == label]


def usable_subjects(s, y, label, min_trials):
    present = sorted({int(v) for v in s})
    usable = [m for m in present if len(rows_of(s, y, m, label)) >= min_trials]
    return usable if len(usable) >= 2 else []


def mean_of(terms, zero):
    return sum(terms, zero) / len(terms) if terms else zero


def mmd_squared(a, b, ia, ib, sigma):
    """Unbiased squared MMD of two lists of rows, skipping pairs of a trial with itself."""

    def mean_kernel(x, y, ix, iy):
        total, n_pairs = 0, 0
        for i in range(len(x)):
            columns = [j for j in range(len(y)) if ix[i] != iy[j]]
            total = total + torch.exp(-((x[i] - y[columns]) ** 2).sum(1) / (2 * sigma**2)).sum()
            n_pairs += len(columns)
        return total / n_pairs

    return mean_kernel(a, a, ia, ia) + mean_kernel(b, b, ib, ib) - 2 * mean_kernel(a, b, ia, ib)


def mean_mmd(z, s, y, contrasts):
    """Return the mean over classes of the mean MMD of the contrasts of a class's subjects (None is all)."""
    sigma, zero = median_scale(z.detach()), (z * 0).sum()
    per_class = []
    for c in classes(y):
        values = []
        for subjects in contrasts(usable_subjects(s, y, c, 2)):
            a, b = (rows_of(s, y, m, c) for m in subjects)
            values.append(mmd_squared(z[a], z[b], a, b, sigma))
        if values:
            per_class.append(mean_of(values, zero))
    return mean_of(per_class, zero)


def mmd(z, s, y, **_):
    return mean_mmd(z, s, y, lambda usable: [(None, m) for m in usable])


def pairmmd(z, s, y, **_):
    return mean_mmd(z, s, y, lambda usable: itertools.combinations(usable, 2))


def mige(z, s, y, score="mige", **_):
    """Surrogate: minus H(z) estimated from the batch, plus H(z|s) from its subjects, scores held constant."""
    zero, fit = (z * 0).sum(), SCORES[score]
    per_class = []
    for c in classes(y):
        usable = usable_subjects(s, y, c, 2)
        if not usable:
            continue
        all_rows = rows_of(s, y, None, c)
        entropy = -(fit(z[all_rows].detach()) * z[all_rows]).sum(-1).mean()
        total = sum(len(rows_of(s, y, m, c)) for m in usable)
        conditional = zero
        for m in usable:
            own = rows_of(s, y, m, c)
            conditional = conditional - len(own) / total * (fit(z[own].detach()) * z[own]).sum(-1).mean()
        per_class.append(entropy - conditional)
    return mean_of(per_class, zero)


def adv(z, s, y, critic=None, **_):
    zero = (z * 0).sum()
    per_class = []
    for c in classes(y):
        own = rows_of(s, y, None, c)
        if not usable_subjects(s, y, c, 1):
            continue
        fractions = [sum(int(s[i]) == m for i in own) / len(own) for m in {int(s[i]) for i in own}]
        entropy = -sum(p * math.log(p) for p in fractions)
        loss = zero
        for i in own:
            logits = critic(z[i : i + 1], *(() if y is None else (y[i : i + 1],)))[0]
            loss = loss - torch.log_softmax(logits, 0)[int(s[i])]
        per_class.append(entropy - loss / len(own))
    return mean_of(per_class, zero)


def autoencoder_error(z, rows, subject, y, critic):
    centre, spread = z.detach().mean(0), z.detach().std(0, correction=0)
    errors = []
    for i in rows:
        v = (z[i : i + 1] - centre) / spread
        labels = [torch.tensor([subject])] + ([] if y is None else [y[i : i + 1]])
        errors.append((v - critic(v, *labels)).abs().mean())
    return sum(errors) / len(errors)


def began_losses(z, s, y, critic):
    """Return for every class a list of (subject, error on all trials, error on the subject's)."""

    def errors(c, m):
        return (autoencoder_error(z, rows_of(s, y, subject, c), m, y, critic) for subject in (None, m))

    cells = [[(m, *errors(c, m)) for m in usable_subjects(s, y, c, 1)] for c in classes(y)]
    return [cell for cell in cells if cell]


def mean_began(z, s, y, critic, term):
    """Return the mean over classes of the mean over subjects of a term of (subject, both errors)."""
    return mean_of([mean_of([term(*e) for e in cell], 0) for cell in began_losses(z, s, y, critic)], 0)


def began(z, s, y, critic=None, **_):
    return mean_began(z, s, y, critic, lambda m, of_all, own: own)


def began_reveal(z, s, y, critic=None, **_):
    return mean_began(z, s, y, critic, lambda m, of_all, own: of_all - own)


def began_critic(z, s, y, critic=None, k=None, **_):
    return mean_began(z, s, y, critic, lambda m, of_all, own: of_all - k[m] * own)


MEASURES = {"adv": adv, "mige": mige, "mmd": mmd, "pairmmd": pairmmd, "began": began}


def penalty(method, mode, z, s, y, critics=(None, None), **options):
    """Any method in any mode."""
    measure = MEASURES[method]
    if mode != "complementary":
        return measure(z, s, y if mode == "conditional" else None, critic=critics[0], **options)
    censor, reveal = z.chunk(2, 1)
    censored = measure(censor, s, None, critic=critics[0], **options)
    if method == "began":
        return censored + began_reveal(reveal, s, None, critic=critics[1])
    return censored - measure(reveal, s, None, critic=critics[1], **options)
