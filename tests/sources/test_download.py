"""Downloads from a small server on this machine that can be cut, changed and made stupid."""

import dataclasses
import hashlib
import io
import json
import shutil
import threading
import urllib.request
import zipfile
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from filelock import FileLock
from tests.sources.readers.ogb_files import random_arrays, write_products

from scr.errors import SourceError, StoreError
from scr.sources import OGB_DATASETS, download, load_graph
from scr.sources import _download as download_module
from scr.sources import _fetch as fetch_module
from scr.sources._ogb_datasets import OgbDataset

Usage = namedtuple("Usage", "total used free")


def zipped(folder, top="products"):
    """A folder as OGB's archives have it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{top}/{path.relative_to(folder)}")
        archive.writestr(f"{top}/padding.bin", np.random.default_rng(0).bytes(200_000))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "products"
    return zipped(write_products(folder, random_arrays()))


class Server:
    """What the server has, how it behaves, and what it was asked."""

    def __init__(self, content):
        self.content, self.tag = content, '"one"'
        self.cut_after = None
        self.knows_ranges = self.knows_if_range = self.says_length = True
        self.requests = []
        self.sends_on_to = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/products.zip"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler):
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        if self.sends_on_to is not None and "moved" not in handler.path:
            handler.send_response(302)
            handler.send_header("Location", self.sends_on_to)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        start = 0
        same = handler.headers.get("If-Range") == self.tag or not self.knows_if_range
        if asked and self.knows_ranges and same:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        size = len(self.content)
        if start >= size:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{size}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if self.tag is not None:
            handler.send_header("ETag", self.tag)
        if self.says_length:
            handler.send_header("Content-Length", str(size - start))
        handler.end_headers()
        handler.wfile.write(self.content[start : self.cut_after])


@pytest.fixture(autouse=True)
def plain_http(monkeypatch):
    """The server of these tests is on this machine, has no certificate, and small archives."""
    monkeypatch.setattr(fetch_module, "_SCHEMES", ("https", "http"))
    for name, dataset in OGB_DATASETS.items():
        monkeypatch.setitem(OGB_DATASETS, name, dataclasses.replace(dataset, sha256=None))


@pytest.fixture
def server(content):
    server = Server(content)
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def get(server, data, **settings):
    return download("ogbn-products", data, url=server.url, **settings)


def names(data):
    return sorted(path.name for path in data.iterdir())


def cut(server, data, after=100_000):
    server.cut_after = after
    with pytest.raises(SourceError, match=f"{after:,} of {len(server.content):,} bytes"):
        get(server, data)
    server.cut_after = None


def test_a_data_set_is_fetched_checked_and_unpacked(server, data, monkeypatch):
    made = get(server, data)
    assert made.folder == data / "ogbn_products"
    assert made.sha256 == hashlib.sha256(server.content).hexdigest()
    assert names(data) == ["ogbn-products.download.json", "ogbn_products"]
    record = json.loads((data / "ogbn-products.download.json").read_text())
    assert record == {"url": server.url, "bytes": len(server.content), "sha256": made.sha256}
    monkeypatch.setenv("SCR_DATA", str(data))
    assert load_graph("ogbn-products").num_nodes == 30


def test_what_is_there_is_not_fetched_again(server, data):
    get(server, data)
    assert get(server, data).sha256 is None
    assert len(server.requests) == 1


def test_the_archive_is_kept_if_asked(server, data):
    made = get(server, data, keep_archive=True)
    assert made.archive.read_bytes() == server.content
    assert "ogbn-products.zip" in names(data)


def test_a_cut_download_goes_on_where_it_stopped(server, data):
    cut(server, data)
    assert names(data) == ["ogbn-products.zip.part", "ogbn-products.zip.part.json"]
    get(server, data)
    assert server.requests == [None, "bytes=100000-"]
    assert names(data) == ["ogbn-products.download.json", "ogbn_products"]


def test_a_download_that_ended_before_it_was_unpacked_is_not_fetched_again(
    server, data, monkeypatch
):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(download_module, "_sha256", interrupt)
        with pytest.raises(KeyboardInterrupt):
            get(server, data)
    get(server, data)
    assert server.requests == [None, f"bytes={len(server.content)}-"]


def test_a_server_without_ranges_starts_again(server, data):
    cut(server, data)
    server.knows_ranges = False
    get(server, data)
    assert server.requests == [None, "bytes=100000-"]
    assert (data / "ogbn_products" / "raw" / "edge.csv.gz").exists()


def test_parts_of_two_files_that_a_server_has_joined_are_found_out(server, data, tmp_path):
    cut(server, data)
    server.content = zipped(write_products(tmp_path / "products", random_arrays(nodes=40)))
    server.tag, server.knows_if_range = '"two"', False
    with pytest.raises(SourceError, match="damaged"):
        get(server, data)
    assert names(data) == []
    get(server, data)
    assert load_graph(data / "ogbn_products").num_nodes == 40


def test_a_file_that_became_another_one_is_not_joined_with_the_old_part(server, data, tmp_path):
    cut(server, data)
    other = write_products(tmp_path / "products", random_arrays(nodes=40))
    server.content, server.tag = zipped(other), '"two"'
    get(server, data)
    assert load_graph(data / "ogbn_products").num_nodes == 40


def test_a_server_that_names_no_version_is_asked_for_everything(server, data):
    server.tag = None
    cut(server, data)
    get(server, data)
    assert server.requests == [None, None]


def test_a_server_that_says_no_length_is_believed_if_the_archive_is_whole(server, data):
    server.says_length = False
    get(server, data)
    server.content = server.content[:-1000]
    with pytest.raises(SourceError, match="damaged"):
        download("ogbn-products", data / "other", url=server.url)
    assert names(data / "other") == []


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(server, data):
    with pytest.raises(SourceError, match="expected 00ff, which was given"):
        get(server, data, sha256="00FF")
    assert names(data) == []
    right = hashlib.sha256(server.content).hexdigest()
    assert get(server, data, sha256=right.upper()).sha256 == right


def test_an_archive_that_is_known_must_be_that_one_unless_another_is_asked_for(
    server, data, monkeypatch
):
    known = dataclasses.replace(OGB_DATASETS["ogbn-products"], sha256="ab" * 32)
    monkeypatch.setitem(OGB_DATASETS, "ogbn-products", known)
    with pytest.raises(SourceError, match=rf"expected {'ab' * 32}, which .* known to have"):
        get(server, data)
    assert names(data) == []
    get(server, data, sha256=hashlib.sha256(server.content).hexdigest())
    assert "ogbn_products" in names(data)


def test_a_later_download_is_compared_with_the_first(server, data, tmp_path):
    get(server, data)
    (data / "ogbn_products").rename(data / "old")
    get(server, data)
    (data / "ogbn_products").rename(data / "older")
    other = write_products(tmp_path / "products", random_arrays(nodes=40))
    server.content = zipped(other)
    with pytest.raises(SourceError, match="from an earlier download"):
        get(server, data)
    assert not (data / "ogbn_products").exists()
    assert not (data / "ogbn-products.zip.part").exists()


def test_too_small_a_disk_is_found_out_before_the_download(server, data, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 1000))
    with pytest.raises(StoreError, match="1,000 are free"):
        get(server, data)
    assert names(data) == []


def test_too_small_a_disk_for_the_content_keeps_the_archive(server, data, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(fetch_module, "check_room", lambda *_, **__: None)
        patched.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 1000))
        with pytest.raises(StoreError, match=r"unpacked; 1,000 are free"):
            get(server, data)
    assert names(data) == ["ogbn-products.zip.part", "ogbn-products.zip.part.json"]
    get(server, data)
    assert (data / "ogbn_products").is_dir()


@pytest.mark.parametrize("name", ["../evil", "products/../../evil", "/evil", "a\\..\\evil", "C:/x"])
def test_an_archive_that_would_write_elsewhere_is_refused(server, data, content, name):
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(name, "evil")
    server.content = buffer.getvalue()
    with pytest.raises(SourceError, match="outside its folder"):
        get(server, data)
    assert names(data) == []
    assert not list(data.parent.rglob("*evil*"))


def test_a_link_in_an_archive_is_refused(server, data, content):
    link = zipfile.ZipInfo("products/link")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    server.content = buffer.getvalue()
    with pytest.raises(SourceError, match="outside its folder"):
        get(server, data)


def test_an_archive_with_an_altered_file_is_refused(server, data, content):
    altered = bytearray(content)
    altered[content.index(b"products/padding.bin") + 5000] ^= 0xFF
    server.content = bytes(altered)
    with pytest.raises(SourceError, match="damaged"):
        get(server, data)
    assert names(data) == []


def test_an_archive_of_something_else_is_refused(server, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("photos/cat.jpg", "miaow")
    server.content = buffer.getvalue()
    with pytest.raises(SourceError, match=r"no folder with `raw` and `split` in it; .*photos"):
        get(server, data)
    assert names(data) == []


def test_an_interrupted_unpack_leaves_only_the_archive(server, data, monkeypatch):
    def interrupt(step):
        def tell(done, _total):
            if step == "unpack" and done > 1000:
                raise KeyboardInterrupt

        return tell

    with pytest.raises(KeyboardInterrupt):
        get(server, data, progress=interrupt)
    assert names(data) == ["ogbn-products.zip.part", "ogbn-products.zip.part.json"]
    get(server, data)
    assert names(data) == ["ogbn-products.download.json", "ogbn_products"]


def test_a_foreign_folder_of_the_same_name_is_left_alone(server, data):
    (data / "ogbn_products").mkdir(parents=True)
    (data / "ogbn_products" / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="not a data set"):
        get(server, data)
    assert (data / "ogbn_products" / "mine.txt").read_text() == "mine"
    assert server.requests == []


def test_what_cannot_be_reached_or_named_is_said_in_one_sentence(server, data):
    with pytest.raises(SourceError, match="expected one of ogbn-products, ogbn-arxiv"):
        download("ogbn-nothing", data)
    with pytest.raises(SourceError, match="expected one that begins with https://"):
        download("ogbn-products", data, url="file:///etc/passwd")
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(SourceError, match="did not end well"):
        get(server, data)


def test_an_answer_of_not_found_is_passed_on(server, data, monkeypatch):
    monkeypatch.setattr(Server, "answer", lambda _, handler: handler.send_error(404, "Not Found"))
    with pytest.raises(SourceError, match="answered 404 Not Found"):
        get(server, data)


def test_plain_http_is_refused(server, data, monkeypatch):
    monkeypatch.setattr(fetch_module, "_SCHEMES", ("https",))
    with pytest.raises(SourceError, match=r"http://127.*; expected one that begins with https://"):
        get(server, data)
    assert server.requests == []
    for url in ("ftp://snap.stanford.edu/a.zip", "https:///a.zip", "//a", "", "https://[::1/a.zip"):
        with pytest.raises(SourceError, match="is not an address to download from"):
            download("ogbn-arxiv", data, url=url or "x")


def test_every_address_that_a_server_sends_on_to_is_checked(server, data):
    for elsewhere in ("file:///etc/passwd", "ftp://127.0.0.1/a", "data:text/plain,x"):
        server.sends_on_to = elsewhere
        with pytest.raises(SourceError, match=r"sends us on, and|is not allowed"):
            get(server, data)
    assert names(data) == []
    server.sends_on_to = server.url.replace("products", "moved")
    assert get(server, data).sha256 == hashlib.sha256(server.content).hexdigest()


def test_https_does_not_become_plain_http(monkeypatch):
    monkeypatch.setattr(fetch_module, "_SCHEMES", ("https",))
    request = urllib.request.Request("https://snap.stanford.edu/a.zip")
    with pytest.raises(SourceError, match=r"sends us on, and `http://snap"):
        fetch_module._CheckedRedirects().redirect_request(
            request, None, 302, "Found", {}, "http://snap.stanford.edu/b.zip"
        )


@pytest.mark.parametrize("says_length", [True, False])
def test_no_more_is_taken_than_an_archive_may_have(server, data, monkeypatch, says_length):
    monkeypatch.setattr(OgbDataset, "most_bytes", 50_000)
    server.says_length = says_length
    with pytest.raises(SourceError, match="expected at most 50,000"):
        get(server, data)
    assert not (data / "ogbn_products").exists()
    assert sum(path.stat().st_size for path in data.iterdir()) < 100_000


@pytest.mark.parametrize("suffix", [".part", ".part.json"])
def test_links_are_never_followed(server, data, tmp_path, suffix):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    data.mkdir()
    (data / f"ogbn-products.zip{suffix}").symlink_to(precious)
    get(server, data)
    assert precious.read_text() == "mine"
    assert names(data) == ["ogbn-products.download.json", "ogbn_products"]


def test_a_link_in_the_place_of_what_was_begun_is_not_continued(server, data, tmp_path):
    cut(server, data)
    part, precious = data / "ogbn-products.zip.part", tmp_path / "precious"
    part.rename(precious)
    part.symlink_to(precious)
    before = precious.read_bytes()
    get(server, data)
    assert precious.read_bytes() == before
    assert server.requests == [None, None]


def test_two_downloads_do_not_meet(server, data):
    data.mkdir()
    with (
        FileLock(data / ".ogbn-products.download.lock"),
        pytest.raises(StoreError, match="Another process is downloading"),
    ):
        get(server, data)
    assert server.requests == []
    get(server, data)


def test_the_first_download_says_that_it_was_trusted(server, data):
    assert get(server, data).record == data / "ogbn-products.download.json"
    (data / "ogbn_products").rename(data / "old")
    assert get(server, data).record is None
    (data / "ogbn_products").rename(data / "older")
    server.content += b"x"  # from another address, too
    with pytest.raises(SourceError, match="from an earlier download"):
        download("ogbn-products", data, url=f"{server.url}?mirror")


def test_an_archive_whose_entries_overlap_is_refused(server, data, content):
    altered, second = bytearray(content), content.rindex(b"PK\x01\x02")
    altered[second + 42 : second + 46] = bytes(4)
    server.content = bytes(altered)
    with pytest.raises(SourceError, match="overlaps another"):
        get(server, data)
    assert names(data) == []
