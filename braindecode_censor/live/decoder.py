"""Live decoding: LSL in, decisions out."""

import time

import numpy as np

from braindecode_censor.live.engine import Decision, Engine, load_decoder
from braindecode_censor.live.source import LslOutlet, LslSource, clock
from braindecode_censor.live.table import make_table

__all__ = ["LiveDecoder"]

_SLEEP = 0.004  # seconds between two looks at the stream


class LiveDecoder:
    """Decode a subject from a Lab Streaming Layer stream, and go on learning the subject from it.

    Parameters
    ----------
    decoder : str, path-like or AutoTransferClassifier
        The folder of a decoder, or the decoder. One that was adapted decodes its subject and does not learn.
    stream : str
        Name of the stream of signals, whose channels have the names of the decoder's, and with its sampling rate.
    events : str or None
        Name of the stream of markers. Every marker begins a trial at its nearest sample.
    every : float or None
        Seconds between windows, instead of markers.
    sure : float
        Smallest probability of a decision. A threshold is no promise: compare claimed and right in the summary.
    smooth : float or None
        Seconds over which probabilities are averaged (their geometric mean). Windows are never multiplied.
    agree : int or None
        Number of successive windows that have to agree.
    pause : float
        With `every`, seconds after a decision without another.
    learn : bool
        Whether to adapt to the subject by trials, or by windows that do not overlap.
    units : {"V", "mV", "uV", "nV"} or None
        Unit of the stream, needed if it declares none.
    outlet : str or None
        Name of the stream to send decisions to, as text; nothing is sent where nothing is decided.
    probabilities : bool
        Whether to send probabilities too, as the stream ``<outlet>-probabilities``.
    filter : ndarray of shape (n_sections, 6), False or None
        Causal filter of the stream, as second-order sections; None takes that of the decoder's preparation.
    bads : sequence of str
        Channels of the stream not to use, such as a broken electrode. They, and channels that the stream lacks, are
        estimated from the others.
    dejitter : bool
        Whether to smooth the stream's time stamps.
    seconds : float or None
        Time after which the loop ends; None goes on until it is left or interrupted.

    Attributes
    ----------
    decisions : list of Decision
        The log so far, complete up to a fault.

    Examples
    --------
    >>> live = LiveDecoder("decoder/", stream="EEG", events="Markers", sure=0.8)  # doctest: +SKIP
    >>> with live:  # doctest: +SKIP
    ...     for decision in live:
    ...         print(decision.label, decision.probabilities)
    """

    def __init__(
        self,
        decoder,
        stream,
        events=None,
        every=None,
        sure=0.8,
        smooth=None,
        agree=None,
        pause=1.0,
        learn=True,
        units=None,
        outlet="decisions",
        probabilities=False,
        filter=None,
        bads=(),
        dejitter=False,
        seconds=None,
    ):
        if (events is None) == (every is None):
            raise ValueError("Pass events=, the name of a marker stream, or every=, seconds between windows.")
        self.decoder, self.stream, self.events = decoder, stream, events
        rules = {"sure": sure, "smooth": smooth, "agree": agree, "pause": pause}
        self.options = {**rules, "every": every, "learn": learn, "filter": filter, "bads": bads}
        self.units, self.outlet, self.probabilities = units, outlet, probabilities
        self.dejitter, self.seconds = dejitter, seconds
        self.decisions, self.source = [], None

    def __enter__(self):
        clf = load_decoder(self.decoder)  # First, because it takes longer than to connect.
        self.source = LslSource(self.stream, self.events, self.units, self.dejitter)
        try:
            self.engine = Engine(clf, self.source.unit, **self.options)
            self.source.arrange(self.engine)
        except Exception:
            self.source.close()
            raise
        self.source.listen()
        self._outlet = None
        if self.outlet is not None:
            self._outlet = LslOutlet(self.outlet, self.engine.classes, self.probabilities)
        return self

    def __exit__(self, *exception):
        self.source.close()
        self._outlet = None

    def __iter__(self):
        if self.source is None:
            raise RuntimeError("Open the streams first: with live: for decision in live: ...")
        start, was_silent = clock(), self.source.is_silent
        while self.seconds is None or clock() - start < self.seconds:
            samples, stamps, markers = self.source.pull()
            for marker in markers:
                self.engine.mark(*marker)
            if self.source.is_silent and not was_silent:
                yield self._log(Decision(clock(), None, None, np.nan, None, "no signal"))
            was_silent = self.source.is_silent
            if len(stamps):
                self.engine.add(samples, stamps)
            for decision in self.engine.decisions(clock, skip=self.events is None):
                yield self._log(decision)
            if not len(stamps):
                time.sleep(_SLEEP)

    def _log(self, decision):
        self.decisions.append(decision)
        if self._outlet is not None:
            self._outlet.push(decision)
        return decision

    def table(self):
        """Return the decisions so far as a table, whose ``summary()`` is what they are worth.

        Returns
        -------
        table : DecisionTable
            Markers that are names of classes count as the truth.
        """
        return make_table(self.decisions, self.engine.classes, idle=self.engine.input.preparation.idle)
