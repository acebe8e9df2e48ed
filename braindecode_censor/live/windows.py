"""Windows of a stream that arrives in chunks: at markers by the nearest sample, or at regular steps."""

from bisect import insort
from dataclasses import dataclass

import numpy as np

__all__ = ["Window", "Windows"]

_HISTORY = 10.0  # seconds of stamps that tell how regular a stream's stamps are
_STEP = 0.6  # samples; a lasting step in the stamps of more than this is a loss
_BLOCK = 64  # samples whose mean stamps are compared on either side of a step
_RATE = 0.005  # relative difference of the rate that is no drift of a clock any more


@dataclass
class Window:
    """Signals (n_chans, n_times), or None and the reason why the window is refused."""

    start: float  # stamp of the first sample
    end: float  # stamp of the last sample
    signals: np.ndarray | None
    marker: object = None
    why: str = ""
    first: int = 0  # index of the first sample since the stream began


class Windows:
    """Cut windows from chunks of samples; how a stream is divided into chunks does not change its windows.

    Parameters
    ----------
    n_times : int
        Samples of a window.
    sfreq : float
        Samples per second.
    tmin : int
        Samples from the marker to the window's first sample.
    every : float or None
        Seconds between the starts of windows; None cuts at markers.
    settle : int
        Samples after a gap, or after the first sample, that a filter needs; windows that begin there are refused.
    """

    def __init__(self, n_times, sfreq, tmin=0, every=None, settle=0):
        self.n_times, self.sfreq, self.tmin, self.settle = n_times, sfreq, tmin, settle
        self.step = None if every is None else max(1, round(every * sfreq))
        self._keep = n_times + abs(tmin) + settle + round(_HISTORY * sfreq)
        self._samples, self._stamps, self._bad = None, np.empty(0), np.empty(0, dtype=bool)
        self._dropped, self._next, self._markers = 0, 0, []

    def add(self, samples, stamps):
        """Add samples (n, n_chans) with their stamps in seconds."""
        finite = np.isfinite(samples).all(axis=1)
        chunks = (samples,) if self._samples is None else (self._samples, samples)
        self._samples = np.concatenate(chunks)
        self._stamps = np.concatenate([self._stamps, stamps])
        self._bad = np.concatenate([self._bad, ~finite])

    def mark(self, time, value):
        """Add a marker; markers may come late, and in any order."""
        insort(self._markers, (time, len(self._markers), value), key=lambda marker: marker[0])

    def take(self):
        """Return the windows that are complete."""
        if self._samples is None:
            return []
        windows = list(self._regular() if self.step is not None else self._at_markers())
        extra = len(self._stamps) - 2 * self._keep
        if extra > 0:  # Half of the buffer is dropped at a time.
            drop = extra + self._keep
            self._samples, self._stamps, self._bad = (
                array[drop:].copy() for array in (self._samples, self._stamps, self._bad)
            )
            self._dropped += drop
        return windows

    def _regular(self):
        while self._next + self.n_times <= self._dropped + len(self._stamps):
            yield self._cut(self._next - self._dropped)
            self._next += self.step

    def _at_markers(self):
        waiting = []
        for marker in self._markers:
            time, _, value = marker
            later = np.flatnonzero(self._stamps > time + 1 / self.sfreq)
            if not len(later):
                waiting.append(marker)
                continue
            # The samples up to the first later one, so that the nearest does not depend on chunks.
            start = int(np.abs(self._stamps[: later[0] + 1] - time).argmin()) + self.tmin
            if start < 0 or self._stamps[0] > time + 0.5 / self.sfreq:
                missed = "before the stream" if not self._dropped else "marker too late"
                yield Window(time, time, None, value, missed)
            elif start + self.n_times > len(self._stamps):
                waiting.append(marker)
            else:
                yield self._cut(start, value, time)
        self._markers = waiting

    def _cut(self, start, marker=None, time=None):
        end = start + self.n_times
        stamps = self._stamps[start:end]
        why = self._refuse(start, end)
        if not why and time is not None and abs(self._stamps[start - self.tmin] - time) > 1 / self.sfreq:
            why = "no sample at the marker"
        signals = None if why else self._samples[start:end].T
        return Window(float(stamps[0]), float(stamps[-1]), signals, marker, why, start + self._dropped)

    def _refuse(self, start, end):
        """Return why a window is refused."""
        if self._bad[max(0, start - self.settle) : end].any():
            return "not finite"
        if start + self._dropped < self.settle:
            return "filter settles"
        before = min(start, round(_HISTORY * self.sfreq))
        residuals = self._stamps[start - before : end] - np.arange(before + self.n_times) / self.sfreq
        has_gap = _steps(residuals, 1 / self.sfreq)
        if has_gap[before:].any():
            return "samples lost"
        if has_gap[max(0, before - self.settle) :].any():
            return "filter settles"
        last = np.flatnonzero(has_gap)
        steady = residuals[last[-1] if len(last) else 0 :]
        if len(steady) >= 2 * self.sfreq:
            slope = np.polyfit(np.arange(len(steady)), steady, 1)[0] * self.sfreq
            if abs(slope) > _RATE:
                return f"rate of {self.sfreq / (1 + slope):.4g} samples per second"
        return ""


def _steps(residuals, interval):
    """Return at which samples stamps step by about a sample or more for good, more than their jitter does.

    Where stamps are regular, a loss is a jump between two samples. Where they jitter, the means of the blocks before
    and after a loss differ.
    """
    size = min(_BLOCK, len(residuals) // 4)
    if size < 1:
        return np.zeros(len(residuals), dtype=bool)
    means = np.convolve(residuals, np.ones(size) / size, "valid")
    jitter = np.median(np.abs(residuals[size:] - means[:-1]))
    steps = np.abs(np.diff(residuals, prepend=residuals[0])) > max(_STEP * interval, 6 * jitter)
    if not steps.any():
        differences = np.abs(means[size:] - means[:-size])
        threshold = max(_STEP * interval, 6 * np.median(differences))
        steps[size : size + len(differences)] = differences > threshold
    return steps
