"""``autotransfer live`` and ``replay``: decisions from a stream, or from a recording."""

import csv
import sys
from contextlib import nullcontext

from braindecode_censor.cli.help import add_command


def add_commands(commands):
    """Add the subcommands to the parser's subcommands."""
    add = add_command(commands, run_live, "live", "decode a stream of Lab Streaming Layer as it arrives")
    add("--stream", required=True, metavar="NAME", help="stream of signals")
    add("--events", metavar="NAME", help="stream of markers, each the beginning of a trial")
    _add_rules(add)
    add("--units", metavar="U", help="V, mV, uV or nV, for a stream that declares none")
    add("--outlet", default="decisions", metavar="NAME", help="stream to send decisions to")
    add("--seconds", type=float, metavar="S", help="time to decode (default: until Ctrl-C)")
    add = add_command(commands, run_replay, "replay", "decode a recording as if it arrived now")
    add(
        "recording", metavar="FILE", help="a recording that MNE reads, with annotations or a channel of codes"
    )
    add("--events", nargs="*", metavar="NAME", help="annotations that begin trials (default: all)")
    _add_rules(add)


def _add_rules(add):
    add("--decoder", required=True, metavar="DIR", help="folder written by `autotransfer fit`")
    add("--every", type=float, metavar="S", help="seconds between windows, instead of events")
    add(
        "--sure",
        type=float,
        default=0.8,
        metavar="P",
        help="smallest probability of a decision (default: 0.8)",
    )
    add(
        "--bads",
        nargs="*",
        default=(),
        metavar="NAME",
        help="channels not to use, such as a broken electrode",
    )
    add("--out", metavar="FILE", help="CSV file of decisions")


def run_live(args):
    """Decode a stream until it is interrupted."""
    from braindecode_censor.live.decoder import LiveDecoder

    names = ("stream", "events", "every", "sure", "units", "outlet", "seconds", "bads")
    live = LiveDecoder(args.decoder, **{name: getattr(args, name) for name in names})
    with live, nullcontext() if args.out is None else open(args.out, "w", newline="") as file:
        writer = None if file is None else csv.writer(file)
        header = ["time", "label", "marker", "why", "latency", *(f"p_{name}" for name in live.engine.classes)]
        if writer is not None:
            writer.writerow(header)
        try:
            for d in live:
                numbers = [] if d.probabilities is None else [f"{p:.6f}" for p in d.probabilities]
                if writer is not None:
                    writer.writerow([f"{d.time:.6f}", d.label, d.marker, d.why, f"{d.latency:.4f}", *numbers])
                    file.flush()  # The log is complete up to a fault.
                print(
                    f"{d.time:.3f}  {d.why if d.label is None else d.label}  {' '.join(numbers)}", flush=True
                )
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
    print(live.table().summary().to_string())
    return 0


def run_replay(args):
    """Decode a recording."""
    from braindecode_censor.live.replay import replay

    rules = {name: getattr(args, name) for name in ("every", "sure", "bads")}
    table = replay(args.decoder, args.recording, events=args.events or None, **rules)
    if args.out is not None:
        table.to_csv(args.out, index=False)
    print(table.summary().to_string())
    return 0
