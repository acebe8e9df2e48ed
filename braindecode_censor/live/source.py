"""Samples and markers of two LSL streams. The only module that imports MNE-LSL, the extra ``[live]``."""

import numpy as np

from braindecode_censor.live.engine import UNITS

__all__ = ["LslOutlet", "LslSource", "clock"]

_WAIT = 2.0  # seconds in which a stream has to be found
_SILENCE = 1.0  # seconds without a sample that are a lost signal
_NAMES = {"volts": "V", "millivolts": "mV", "microvolts": "uV", "nanovolts": "nV", "µv": "uV", "μv": "uV"}
_NAMES |= {unit.lower(): unit for unit in UNITS} | {"0": "V", "-3": "mV", "-6": "uV", "-9": "nV"}


def _lsl():
    try:
        from mne_lsl import lsl
    except ImportError:
        raise ImportError(
            "Live decoding needs MNE-LSL: install it with pip install 'braindecode-censor[live]'."
        ) from None
    return lsl


def clock():
    """Return the time of LSL in seconds."""
    return _lsl().local_clock()


class LslSource:
    """A stream of signals and, optionally, one of markers.

    Parameters
    ----------
    stream, events : str, str or None
        Names of the streams.
    units : str or None
        Unit of the signals; needed if the stream declares none.
    dejitter : bool
        Whether to smooth time stamps, for amplifiers that need it; after lost samples it shifts windows.
    """

    def __init__(self, stream, events=None, units=None, dejitter=False):
        if units is not None and units not in UNITS:
            raise ValueError(f"units={units!r} is unknown; choose from {list(UNITS)}.")
        self.units, self._inlets = units, []
        flags = ["clocksync", "dejitter"] if dejitter else ["clocksync"]
        # The whole time, because a second stream of a name may answer later than the first.
        present = _lsl().resolve_streams(_WAIT)
        try:
            # Markers first, because one that is sent before the inlet opens is lost.
            self.markers = None
            if events is not None:
                self.markers = self._open(present, events, "marker stream", ["clocksync"])
            self.inlet = self._open(present, stream, "stream", flags)
            self.info = self.inlet.get_sinfo(timeout=_WAIT)
            if self.info.dtype == "string":
                raise ValueError(f"The stream {stream!r} holds text, not signals: is it the marker stream?")
            self.unit = self._find_unit()
        except Exception:
            self.close()
            raise
        self._channels, self.is_silent = None, False
        self.listen()

    def _open(self, present, name, kind, flags):
        matches = [info for info in present if info.name == name]
        if len(matches) != 1:
            where = ", ".join(f"{info.hostname} ({info.source_id})" for info in matches)
            problem = f"{len(matches)} are: {where}" if matches else f"none is, after {_WAIT:g} s"
            raise ValueError(f"One {kind} named {name!r} is expected on the network, and {problem}.")
        inlet = _lsl().StreamInlet(matches[0], max_buffered=60, processing_flags=flags)
        self._inlets.append(inlet)
        inlet.open_stream(timeout=_WAIT)
        return inlet

    def _find_unit(self):
        names = {str(unit).lower() for unit in self.info.get_channel_units() or ["none"]}
        units = {_NAMES.get(name) for name in names}
        declared = next(iter(units)) if len(units) == 1 else None
        if declared is None and self.units is None:
            raise ValueError(
                f"The stream {self.info.name!r} declares no unit, or several ({', '.join(sorted(names))}): pass "
                f"units=, one of {list(UNITS)}."
            )
        return self.units or declared

    def arrange(self, engine):
        """Order the channels as the decoder's."""
        names = self.info.get_channel_names() or [str(k) for k in range(self.info.n_channels)]
        self._channels = engine.arrange(f"The stream {self.info.name!r}", names, self.info.sfreq)

    def listen(self):
        """Begin to count silence."""
        self._heard = clock()

    def pull(self):
        """Return new samples (n, n_chans), their stamps, and new markers as pairs of time and value."""
        samples, stamps = self.inlet.pull_chunk(timeout=0.0, max_samples=4096)
        samples, stamps = np.array(samples)[:, self._channels], np.array(stamps)
        markers = []
        if self.markers is not None:
            values, times = self.markers.pull_chunk(timeout=0.0, max_samples=256)
            markers = [(float(t), _value(row[0])) for t, row in zip(times, values)]
        now = clock()
        self._heard = now if len(stamps) else self._heard
        self.is_silent = now - self._heard > _SILENCE
        return samples, stamps, markers

    def close(self):
        """Close the inlets."""
        for inlet in self._inlets:
            inlet.close_stream()
        self._inlets = []


def _value(value):
    """Return a marker's value as text, the numbers of numeric streams without a point."""
    if isinstance(value, str):
        return value
    return str(int(value)) if float(value).is_integer() else str(value)


class LslOutlet:
    """Outlet of decisions as text, and on request one of probabilities."""

    def __init__(self, name, classes, probabilities=False):
        lsl = _lsl()
        self.labels = lsl.StreamOutlet(lsl.StreamInfo(name, "Markers", 1, 0, "string", f"{name}-decisions"))
        self.probabilities = None
        if probabilities:
            name = f"{name}-probabilities"
            info = lsl.StreamInfo(name, "Probabilities", len(classes), 0, "float32", name)
            info.set_channel_names([str(label) for label in classes])
            self.probabilities = lsl.StreamOutlet(info)

    def push(self, decision):
        """Send a decision, with the time stamp of its last sample."""
        if decision.label is not None:
            self.labels.push_sample([str(decision.label)], decision.time)
        if self.probabilities is not None and decision.probabilities is not None:
            self.probabilities.push_sample(decision.probabilities.astype(np.float32), decision.time)
