"""Fetch a file over HTTP: resumed where it broke off, verified, never half done under its own name."""

import errno
import os
import time
from pathlib import Path

import pooch
import requests
from tqdm.auto import tqdm


class ResumingDownloader:
    """A pooch downloader that continues an interrupted transfer, in the same call or in a later one."""

    def __init__(self, part, attempts=5, wait=1.0, timeout=30.0, progressbar=True):
        self.part = Path(part)
        self.attempts, self.wait, self.timeout = attempts, wait, timeout
        self.progressbar = progressbar

    def __call__(self, url, output_file, pooch):
        """Download ``url`` to ``output_file``; pooch then checks it and gives it its name."""
        for attempt in range(self.attempts):
            try:
                self._transfer(url)
                break
            except requests.RequestException:
                if attempt + 1 == self.attempts:
                    raise
                time.sleep(self.wait * 2**attempt)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    self.part.unlink(
                        missing_ok=True
                    )  # make room again; a resumed download would fail the same way
                raise
        os.replace(self.part, output_file)

    def _transfer(self, url):
        """Append what is missing to the part file; raise if the connection ends early."""
        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as response:
            if (
                response.status_code == 416
            ):  # nothing after what is here: complete, or longer than the original
                if _total(response) == have:
                    return
                self.part.unlink()
                raise requests.ConnectionError(f"{url}: the partial file did not fit; starting again")
            response.raise_for_status()
            if response.status_code != 206:  # the server sends everything again
                have = 0
            size = _total(response)
            self._receive(response, have, size)
        if size is not None and self.part.stat().st_size < size:
            raise requests.ConnectionError(
                f"{url}: connection closed at {self.part.stat().st_size} of {size} bytes"
            )

    def _receive(self, response, have, size):
        bar = tqdm(total=size, initial=have, unit="B", unit_scale=True, disable=not self.progressbar)
        with bar, open(self.part, "ab" if have else "wb") as stream:
            for chunk in response.iter_content(1 << 13):  # small: an unfinished chunk is lost
                stream.write(chunk)
                bar.update(len(chunk))


def _total(response):
    """Return the size of the whole file as the server states it, or None."""
    stated = response.headers.get("Content-Range", "").rpartition("/")[2]
    if stated.isdigit():
        return int(stated)
    length = response.headers.get("Content-Length")
    return int(length) if length and response.status_code == 200 else None


def fetch(url, known_hash, folder, progressbar=True, **options):
    """Return the path of a downloaded and verified file, fetching it when it is not there."""
    folder, name = Path(folder), url.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    by_hand = f"Download {url} by hand, put it at {folder / name} and run this again."
    downloader = ResumingDownloader(folder / f"{name}.part", progressbar=progressbar, **options)
    try:
        return Path(pooch.retrieve(url, known_hash, fname=name, path=folder, downloader=downloader))
    except requests.RequestException as error:
        raise ConnectionError(f"{name} could not be downloaded ({error}). {by_hand}") from error
    except OSError as error:
        raise OSError(
            error.errno, f"{name} could not be stored in {folder}: {error.strerror}. Free some space."
        ) from error
    except ValueError as error:
        raise ValueError(f"{name} did not arrive intact: {error} Nothing was kept. {by_hand}") from error
