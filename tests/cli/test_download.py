"""`scr download`: the license comes first."""

import dataclasses
import io
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.sources.readers.ogb_files import random_arrays, write_arxiv

from scr.cli import main
from scr.sources import OGB_DATASETS


def scr(*arguments):
    """Run the command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def plain_http(monkeypatch):
    """The server of these tests is on this machine, has no certificate, and small archives."""
    monkeypatch.setattr("scr.sources._fetch._SCHEMES", ("https", "http"))
    for name, dataset in OGB_DATASETS.items():
        monkeypatch.setitem(OGB_DATASETS, name, dataclasses.replace(dataset, sha256=None))


@pytest.fixture
def url(tmp_path):
    folder = write_arxiv(tmp_path / "arxiv", random_arrays())
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as archive:
        for path in folder.rglob("*.gz"):
            archive.write(path, path.relative_to(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/arxiv.zip"
    server.shutdown()
    server.server_close()


def test_the_license_is_shown_and_accepted(url, tmp_path, capsys, monkeypatch):
    data = tmp_path / "data"
    assert scr("download", "ogbn-arxiv", "--to", data, "--url", url, "--yes") == 0
    printed = capsys.readouterr().out
    assert "ODC-BY" in printed
    assert "SHA-256" in printed
    assert "this first download was trusted" in " ".join(printed.split())
    assert (data / "ogbn_arxiv" / "raw" / "edge.csv.gz").exists()
    monkeypatch.setenv("SCR_DATA", str(data))
    assert scr("ingest", "ogbn-arxiv", tmp_path / "store") == 0
    assert scr("download", "ogbn-arxiv") == 0
    assert "there already" in capsys.readouterr().out


def test_nothing_is_fetched_where_nobody_can_accept(url, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert scr("download", "ogbn-arxiv", "--to", tmp_path / "data", "--url", url) == 2
    assert "has not been accepted" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_no_fetches_nothing(url, tmp_path, monkeypatch):
    answer = io.StringIO("n\n")
    answer.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", answer)
    assert scr("download", "ogbn-arxiv", "--to", tmp_path / "data", "--url", url) == 1
    assert not (tmp_path / "data").exists()


def test_an_unknown_name_lists_those_that_are_known(tmp_path, capsys):
    assert scr("download", "ogbn-proteins", "--to", tmp_path) == 2
    assert "ogbn-products, ogbn-arxiv, ogbn-mag, ogbn-papers100M" in capsys.readouterr().err
