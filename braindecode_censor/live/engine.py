"""From chunks of samples and markers to decisions: the same for a live stream and for a recording."""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.signal import sosfilt, sosfilt_zi

from braindecode_censor.decoder.caps import find_channels
from braindecode_censor.decoder.classifier import AutoTransferClassifier
from braindecode_censor.live.decide import Decide
from braindecode_censor.live.windows import Windows

__all__ = ["UNITS", "Decision", "Engine", "load_decoder"]

#: Unit -> volts.
UNITS = {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "nV": 1e-9}
_SETTLED = 1e-5  # of a filter's response to the past, which is then no part of a window any more
_OTHER_UNITS = 100  # amplitudes of two subjects differ by less


@dataclass
class Decision:
    """One decision, or the reason why there is none.

    Attributes
    ----------
    time : float
        Time stamp of the window's last sample, in seconds.
    label : object
        Class, or None.
    probabilities : ndarray or None
        Of the classes, in their order; None for a refused window.
    latency : float
        Seconds from the last sample, on a recording from the arrival of its chunk, to the decision.
    marker : object
        Value of the marker, None without markers.
    why : str
        Reason for no decision: "unsure", "not agreed", "idle", "pause", or why the window was refused.
    """

    time: float
    label: object
    probabilities: np.ndarray | None
    latency: float
    marker: object = None
    why: str = ""


class Engine:
    """The decoder, its windows and its rules; `source_unit` is that of the samples.

    The other parameters are those of :class:`~braindecode_censor.live.decoder.LiveDecoder`.
    """

    def __init__(
        self, decoder, source_unit, every=None, learn=True, filter=None, bads=(), pause=1.0, **rules
    ):
        clf = load_decoder(decoder)
        self.input, self.classes, self.learn = clf.input_, clf.classes_, learn and not clf.adapted_
        if self.input.sfreq is None:
            raise ValueError("The decoder does not know its sampling rate: fit it with sfreq=, or on Epochs.")
        prepared = self.input.preparation
        self.scale = UNITS[source_unit] / UNITS[prepared.unit]
        sos = self._find_filter(filter, prepared)
        self.filter = None if sos is None else _CausalFilter(sos)
        settle = 0 if sos is None else self.filter.settle
        self.windows = Windows(self.input.n_times, self.input.sfreq, prepared.tmin, every, settle)
        if every is not None and prepared.idle is None:
            warnings.warn(
                "The decoder has no class of rest: rest will be decoded as some class.", stacklevel=3
            )
        rules["pause"] = pause if every is not None else 0.0
        self.decide = Decide(self.classes, idle=prepared.idle, **rules)
        self.decoder = clf.stream() if self.learn else clf
        self.bads = (bads,) if isinstance(bads, str) else tuple(bads)
        self._learned_until, self._has_checked, self._weights = 0, False, None

    @staticmethod
    def _find_filter(filter, prepared):
        if filter is not None and filter is not False:
            return np.asarray(filter, dtype=float)
        if prepared.phase == "causal":
            return None if prepared.sos is None or filter is False else np.asarray(prepared.sos)
        if filter is None:
            band = "" if prepared.band is None else f" in the band {prepared.band} Hz"
            warnings.warn(
                f"The training signals were filtered{band}, but not causally or by an unknown filter: fit with "
                "preparation={'sos': sos, 'phase': 'causal'}, or pass filter=sos, or filter=False if the stream "
                "arrives as the training signals were.",
                stacklevel=4,
            )
        return None

    def arrange(self, owner, names, sfreq, own_bads=()):
        """Return the positions of the channels to add, from which bad and missing ones are estimated."""
        if not np.isclose(sfreq, self.input.sfreq, rtol=1e-3):
            raise ValueError(
                f"{owner} has {sfreq:g} samples per second, the decoder was fitted with {self.input.sfreq:g}: record "
                "at that rate."
            )
        unknown = [name for name in self.bads if name not in names]
        if unknown:
            raise ValueError(f"bads={unknown} are not among the channels of {owner}: {', '.join(names)}.")
        wanted = self.input.ch_names
        if wanted is not None:
            good = [None if name in self.bads or name in own_bads else name for name in names]
            positions, self._weights = find_channels(owner, good, wanted, self.input.covariance)
            return positions
        if self.bads:
            raise ValueError(
                f"bads={list(self.bads)} are not known: the decoder was fitted without ch_names=."
            )
        if len(names) != self.input.n_chans:
            raise ValueError(
                f"{owner} has {len(names)} channels, the decoder was fitted with {self.input.n_chans} without names."
            )
        return list(range(len(names)))

    def add(self, samples, stamps):
        """Add samples (n, n_chans) of the channels that :meth:`arrange` found, as they arrive."""
        samples = np.asarray(samples, dtype=float) * self.scale
        if self._weights is not None:
            samples = samples @ self._weights.T
        if self.filter is not None:
            samples = self.filter(samples)
        self.windows.add(samples, np.asarray(stamps, dtype=float))

    def mark(self, time, value):
        """Add a marker."""
        self.windows.mark(time, value)

    def decisions(self, clock=None, skip=False):
        """Yield the decisions on all complete windows; with `skip` only on the newest of a queue that is too long."""
        start, windows = time.perf_counter(), self.windows.take()
        late = len(windows) - 1 if skip and len(windows) > 1 and self._is_late(windows) else 0
        for window in windows[:late]:
            if window.why:
                self.decide.reset()
            yield Decision(window.end, None, None, np.nan, window.marker, window.why or "skipped")
        for window in windows[late:]:
            label, probabilities, why = self._decide(window)
            latency = time.perf_counter() - start if clock is None else clock() - window.end
            yield Decision(window.end, label, probabilities, latency, window.marker, why)

    def _is_late(self, windows):
        return windows[-1].end - windows[0].end > self.input.n_times / self.input.sfreq

    def _decide(self, window):
        if window.why:
            self.decide.reset()
            return None, None, window.why
        signals = window.signals.astype(np.float32)[None]
        self._check_amplitude(signals)
        learns = self.learn and window.first >= self._learned_until
        if learns:  # Of windows that overlap the first is learned from.
            self._learned_until = window.first + self.input.n_times
        decoder = self.decoder
        (probabilities,) = decoder.decode(signals, learns) if self.learn else decoder.predict_proba(signals)
        return self.decide(window.end, probabilities)

    def _check_amplitude(self, signals):
        expected, measured = self.input.amplitude, float(signals.std(axis=-1).mean())
        if self._has_checked or not expected or not measured:
            return
        self._has_checked = True
        if not 1 / _OTHER_UNITS < measured / expected < _OTHER_UNITS:
            warnings.warn(
                f"The first window has a typical amplitude of {measured:.3g}, the decoder's training trials had "
                f"{expected:.3g} {self.input.preparation.unit}: is the unit of the stream right?",
                stacklevel=2,
            )


class _CausalFilter:
    """Second-order sections with their state; it begins settled on the first sample."""

    def __init__(self, sos):
        self.sos, self._state, self._last = sos, None, 0.0
        radius = max(abs(np.roots(section[3:])).max(initial=0) for section in sos)
        self.settle = int(np.ceil(np.log(_SETTLED) / np.log(radius))) if 0 < radius < 1 else 0

    def __call__(self, samples):
        """Return the filtered samples (n, n_chans). A value that is not finite stays one, but not in the state."""
        if not len(samples):
            return samples
        is_bad = ~np.isfinite(samples)
        if is_bad.any():
            samples = samples.copy()
            for k in np.flatnonzero(is_bad.any(axis=1)):
                samples[k] = np.where(is_bad[k], samples[k - 1] if k else self._last, samples[k])
        if self._state is None:
            self._state = sosfilt_zi(self.sos)[:, :, None] * samples[0]
        self._last = samples[-1]
        filtered, self._state = sosfilt(self.sos, samples, axis=0, zi=self._state)
        filtered[is_bad] = np.nan
        return filtered


def load_decoder(decoder):
    """Return a decoder, read from its folder if it is none yet."""
    return decoder if isinstance(decoder, AutoTransferClassifier) else AutoTransferClassifier.load(decoder)
