"""Every format of the corpus is a graph, so that what damage does to it can be seen."""

import numpy as np
import pytest
from tests.sources.corpus import CORPUS, read

from scr.sources._formats import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")


@pytest.mark.parametrize("name", CORPUS)
def test_every_source_of_the_corpus_is_read(tmp_path, name):
    graph = read(name, CORPUS[name](tmp_path))
    assert len(graph.indices)
    assert graph.features is not None
    assert graph.labels.max() >= 1
    np.testing.assert_array_equal(graph.indices < graph.num_nodes, True)


def test_every_format_is_in_the_corpus(tmp_path):
    formats = set()
    for name, write in CORPUS.items():
        if not name.startswith("fit-"):
            (tmp_path / name).mkdir()
            path = write(tmp_path / name)
            formats.add(next(each.looks_like for each in FORMATS if each.recognizes(path)))
    assert formats == {each.looks_like for each in FORMATS}
