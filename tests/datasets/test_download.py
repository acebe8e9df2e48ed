"""Does a download survive drops, refuse corruption, and leave nothing half done behind?"""

import contextlib
import hashlib
import http.server
import multiprocessing
import resource
import signal
import subprocess
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import standins

from braindecode_censor.datasets import ECoGFaces
from braindecode_censor.datasets._archive import unpack
from braindecode_censor.datasets._download import fetch

CONTENT = np.random.default_rng(0).bytes(700_000)
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
FAST = dict(progressbar=False, wait=0.01, timeout=5)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the server object says how it misbehaves."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server, content = self.server, self.server.content
        asked = self.headers.get("Range")
        server.requests.append(asked)
        start = int(asked[6:].rstrip("-")) if asked and server.ranges else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        drop = server.drops.pop(0) if server.drops else None
        body = content[start:] if drop is None else content[start : start + drop]
        with contextlib.suppress(OSError):
            for k in range(0, len(body), 50_000):
                self.wfile.write(body[k : k + 50_000])
                time.sleep(server.delay)
        if drop is not None:
            self.close_connection = True
            self.connection.close()


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.ranges, server.drops, server.delay, server.requests = CONTENT, True, [], 0.0, []
    server.url = f"http://127.0.0.1:{server.server_port}/faces_basic.zip"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)  # shutdown waits for it
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_a_plain_download_is_kept_and_not_repeated(server, tmp_path):
    path = fetch(server.url, MD5, tmp_path, **FAST)
    assert path.read_bytes() == CONTENT and names(tmp_path) == ["faces_basic.zip"]
    fetch(server.url, MD5, tmp_path, **FAST)
    assert len(server.requests) == 1


def test_a_dropped_connection_is_resumed_where_it_broke(server, tmp_path):
    server.drops = [100_000, 250_000]
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT
    offsets = [int(asked[6:-1]) for asked in server.requests[1:]]
    assert len(offsets) == 2 and 80_000 < offsets[0] <= 100_000 and 320_000 < offsets[1] <= 350_000
    assert names(tmp_path) == ["faces_basic.zip"]


def test_a_server_without_ranges_makes_it_start_again(server, tmp_path):
    server.drops, server.ranges = [100_000], False
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT


def test_a_throttled_server_is_waited_for(server, tmp_path):
    server.delay = 0.05
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT


def test_a_silent_server_counts_as_broken_and_is_resumed(server, tmp_path):
    server.delay, server.drops = 1.5, [50_000]
    options = FAST | dict(timeout=0.5, attempts=2)
    with pytest.raises(ConnectionError, match="could not be downloaded"):
        fetch(server.url, MD5, tmp_path, **options)
    assert names(tmp_path) == ["faces_basic.zip.part"]
    server.delay = 0.0
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT


def test_an_interrupted_program_is_resumed_by_the_next_one(server, tmp_path):
    """The program is killed outright in the middle; the next run asks only for the rest."""
    server.delay = 0.3
    program = multiprocessing.get_context("fork").Process(
        target=fetch, args=(server.url, MD5, tmp_path, False)
    )
    program.start()
    part = tmp_path / "faces_basic.zip.part"
    deadline = time.time() + 120
    while not (part.exists() and part.stat().st_size > 60_000) and time.time() < deadline:
        time.sleep(0.05)
    program.kill()
    program.join()
    arrived = part.stat().st_size
    assert 0 < arrived < len(CONTENT) and not (tmp_path / "faces_basic.zip").exists()
    server.delay = 0.0
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT
    assert server.requests[-1] == f"bytes={arrived}-"


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(server, tmp_path):
    corrupt = bytearray(CONTENT)
    corrupt[5000] ^= 1
    server.content = bytes(corrupt)
    with pytest.raises(
        ValueError, match=r"(?s)did not arrive intact: MD5 hash.*Nothing was kept. Download http"
    ):
        fetch(server.url, MD5, tmp_path, **FAST)
    assert names(tmp_path) == []
    server.content = CONTENT
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT


def test_a_part_of_another_file_does_not_survive(server, tmp_path):
    """What was left over belongs to another version: the check sum notices, the next run starts clean."""
    (tmp_path / "faces_basic.zip.part").write_bytes(bytes(1000))
    with pytest.raises(ValueError, match="did not arrive intact"):
        fetch(server.url, MD5, tmp_path, **FAST)
    assert names(tmp_path) == []
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT


@pytest.mark.parametrize("extra", [0, 500], ids=["complete", "too-long"])
def test_a_part_that_is_already_whole_or_too_long(server, tmp_path, extra):
    (tmp_path / "faces_basic.zip.part").write_bytes(CONTENT + bytes(extra))
    assert fetch(server.url, MD5, tmp_path, **FAST).read_bytes() == CONTENT


def test_no_network_says_what_to_download_and_where_to_put_it(server, tmp_path):
    url = server.url.replace(str(server.server_port), "1")  # nobody listens there
    with pytest.raises(
        ConnectionError, match=r"Download http://127\.0\.0\.1:1/faces_basic\.zip by hand, put it at .*"
    ):
        fetch(url, MD5, tmp_path, **(FAST | dict(attempts=2)))
    assert names(tmp_path) == []


def test_a_missing_page_says_so(server, tmp_path):
    server.RequestHandlerClass = http.server.BaseHTTPRequestHandler
    with pytest.raises(ConnectionError, match="could not be downloaded"):
        fetch(server.url, MD5, tmp_path, **(FAST | dict(attempts=1)))


@contextlib.contextmanager
def small_disk(tmp_path, size):
    """Yield a folder that holds no more than ``size`` bytes: a real file system of that size, if we may mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextlib.contextmanager
def file_size_limit(size):
    """Let no file grow beyond ``size`` bytes, as the kernel does for a quota: write fails with EFBIG."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_no_half_file(server, tmp_path):
    with small_disk(tmp_path, 400 * 1024) as folder:
        with pytest.raises(
            OSError, match=r"could not be stored in .*No space left on device.*Free some space"
        ):
            fetch(server.url, MD5, folder, **FAST)
        assert names(folder) == []


def test_a_quota_leaves_no_half_file(server, tmp_path):
    with file_size_limit(300_000), pytest.raises(OSError, match=r"could not be stored in .*File too large"):
        fetch(server.url, MD5, tmp_path, **FAST)
    assert names(tmp_path) == []


def test_unpacking_onto_a_full_disk_leaves_no_half_file(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/one.mat", bytes(10_000))
        archive.writestr("data/two.mat", bytes(900_000))
    target = tmp_path / "out"
    with file_size_limit(300_000), pytest.raises(OSError, match="File too large"):
        unpack(path, target)
    assert names(target / "data") == ["one.mat"]
    unpack(path, target)
    assert [(target / "data" / name).stat().st_size for name in ("one.mat", "two.mat")] == [10_000, 900_000]


def test_ecog_faces_downloads_unpacks_and_loads(server, ecog_folder, tmp_path):
    """The whole way, from the server to the trials, with a connection that drops once."""
    folder, truth = ecog_folder
    with zipfile.ZipFile(tmp_path / "source.zip", "w") as archive:
        for path in folder.rglob("aa_*.mat"):
            archive.write(path, path.relative_to(folder))
    server.content = (tmp_path / "source.zip").read_bytes()
    server.drops = [1_000_000]
    dataset = ECoGFaces(tmp_path / "data")
    assert dataset.url.startswith("https://stacks.stanford.edu/") and not dataset.is_local()
    dataset.url, dataset.known_hash = server.url, "md5:" + hashlib.md5(server.content).hexdigest()
    raw = dataset.get_data([1])[1]["0"]["0"]
    np.testing.assert_array_equal(np.round(raw.annotations.onset * 1000), truth["aa"][0])
    assert len(server.requests) == 2 and dataset.is_local()
    dataset.known_hash = "md5:0"
    with pytest.raises(ValueError, match="did not arrive intact"):
        dataset.data_path(1, force_update=True)
    assert standins.Path(dataset.folder, "faces_basic", "data").is_dir() and not dataset.archive.exists()
