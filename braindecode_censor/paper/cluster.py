"""Dask clusters by address, and addresses without their passwords."""

from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import parse_qsl, quote, unquote

__all__ = ["hide_password", "open_client"]

_TIMEOUT = 10  # seconds within which a scheduler has to answer


@contextmanager
def open_client(scheduler):
    """Give a Dask client for the address of a scheduler, None for None, and a client as it is."""
    if scheduler is None or not isinstance(scheduler, str):
        yield scheduler
        return
    try:
        client = _connect(scheduler)
    except (OSError, ValueError) as error:
        message = f"scheduler={scheduler!r} does not answer: {error}."
        raise ValueError(hide_password(message, scheduler)) from None
    with client:  # The cluster goes on after the client is closed.
        yield client


def _connect(scheduler):
    """Return a client; Dask itself waits for ever for a process that accepts a connection and says nothing."""
    from dask.distributed import Client  # Dask is an extra.

    results = SimpleQueue()

    def connect():
        try:
            results.put(Client(scheduler, timeout=_TIMEOUT, set_as_default=False))
        except Exception as error:
            results.put(error)

    Thread(target=connect, daemon=True).start()
    try:
        result = results.get(timeout=1.5 * _TIMEOUT)
    except Empty:
        raise OSError(f"no word in {1.5 * _TIMEOUT:g} s") from None
    if isinstance(result, Exception):
        raise result
    return result


def hide_password(text, address):
    """Return a text without the passwords of an address that it may quote."""
    _, _, remainder = address.partition("://")
    secrets = [remainder.rpartition("@")[0].partition(":")[2]]
    secrets += [value for name, value in parse_qsl(address.partition("?")[2]) if "pass" in name.lower()]
    for secret in filter(None, secrets):
        for spelling in (secret, unquote(secret), quote(secret, safe="")):
            text = text.replace(spelling, "***")
    return text
