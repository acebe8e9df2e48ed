"""Downloads survive drops and refuse corruption; no file is ever there in half."""

import contextlib
import hashlib
import http.server
import threading
import zipfile
from pathlib import Path

import numpy as np
import pooch.core
import pytest
from processes import file_size_limit

from braindecode_censor.datasets import ECoGFaces
from braindecode_censor.datasets._download import fetch, unpack

CONTENT = np.random.default_rng(0).bytes(700_000)
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the server's content; the first connections break off after the bytes in ``drops``."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.n_requests += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        drop = self.server.drops.pop(0) if self.server.drops else None
        with contextlib.suppress(OSError):
            self.wfile.write(self.server.content[:drop])
        if drop is not None:
            self.close_connection = True
            self.connection.close()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.drops, server.n_requests = CONTENT, [], 0
    server.url = f"http://127.0.0.1:{server.server_port}/faces_basic.zip"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.parametrize("path", [":1/faces_basic.zip", "/missing.zip"])
def test_fetch_without_network_names_url_and_target(server, tmp_path, path):
    server.RequestHandlerClass = http.server.BaseHTTPRequestHandler
    url = "http://127.0.0.1:1/a.zip" if path.startswith(":") else server.url
    with pytest.raises(ConnectionError, match=rf"(?s)Download {url} by hand, put it at {tmp_path}"):
        fetch(url, MD5, tmp_path)
    assert names(tmp_path) == []


def test_fetch_leaves_no_half_file_under_a_quota(server, tmp_path):
    with file_size_limit(300_000), pytest.raises(OSError, match="File too large"):
        fetch(server.url, MD5, tmp_path)
    assert names(tmp_path) == []


def test_unpack_leaves_no_half_file_under_a_quota(tmp_path):
    path, target = tmp_path / "a.zip", tmp_path / "out"
    sizes = {"one.mat": 10_000, "two.mat": 900_000}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in sizes.items():
            archive.writestr(f"data/{name}", bytes(size))
    with file_size_limit(300_000), pytest.raises(OSError, match="File too large"):
        unpack(path, target)
    assert [name for name in names(target / "data") if name.endswith(".mat")] == ["one.mat"]
    unpack(path, target)
    assert {file.name: file.stat().st_size for file in (target / "data").iterdir()} == sizes


@pytest.mark.parametrize("name", ["../../evil.txt", "/tmp/evil.txt", "..\\evil.txt", "C:\\evil.txt"])
def test_unpack_writes_inside_its_folder_only(tmp_path, name):
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "a.zip", "w") as archive:
        archive.writestr(name, b"x")
    (path,) = unpack(tmp_path / "in" / "a.zip", tmp_path / "in")
    assert path.is_relative_to(tmp_path / "in") and names(tmp_path) == ["in"]
    assert not Path("/tmp/evil.txt").exists()


def test_ecog_faces_downloads_unpacks_and_loads(server, ecog_folder, tmp_path):
    """From the server to the trials, with a connection that drops once, and once only."""
    folder, truth = ecog_folder
    with zipfile.ZipFile(tmp_path / "source.zip", "w") as archive:
        for path in folder.rglob("aa_*.mat"):
            archive.write(path, path.relative_to(folder))
    server.content = (tmp_path / "source.zip").read_bytes()
    server.drops = [1_000_000]
    dataset = ECoGFaces(tmp_path / "data")
    assert dataset.URL.startswith("https://stacks.stanford.edu/") and not dataset.is_local()
    dataset.URL, dataset.MD5 = server.url, "md5:" + hashlib.md5(server.content).hexdigest()
    for _ in range(2):
        raw = dataset.get_data([1])[1]["0"]["0"]
        np.testing.assert_array_equal(np.round(raw.annotations.onset * 1000), truth["aa"][0])
        assert server.n_requests == 2 and dataset.is_local()
    dataset.MD5 = "md5:0"
    with pytest.raises(
        ConnectionError, match=r"(?s)could not be downloaded intact \(MD5 hash.*Download http"
    ):
        dataset.data_path(1, force_update=True)
    assert (dataset.folder / "faces_basic" / "data").is_dir() and not dataset.archive.exists()
