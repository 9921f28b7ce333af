"""OGB's node-property data sets by name: where they come from, under which license, where they lie.

A data set `ogbn-products` is the folder `ogbn_products` of the data folder, which is `$SCR_DATA` or
`~/.cache/scr/data`. The package `ogb` names folders in the same way, so `$SCR_DATA` may also be
the `root` that was given to it. `scr download` fills the data folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from scr.errors import SourceError

DATA_VARIABLE = "SCR_DATA"
"""The environment variable that names the data folder."""

_ARCHIVES = "https://snap.stanford.edu/ogb/data/nodeproppred/"
_ODC_BY = ("ODC-BY 1.0", "https://opendatacommons.org/licenses/by/1-0/")
_AMAZON = ("Amazon license", "https://s3.amazonaws.com/amazon-reviews-pds/license.txt")


@dataclass(frozen=True, kw_only=True)
class OgbDataset:
    """What is known of a data set before it is here."""

    name: str
    archive: str
    """The folder in the archive, and the archive's name without `.zip`."""
    size: str
    """Of the archive, about; the server says it exactly."""
    sha256: str | None
    """Of the archive; none: nobody has said."""
    nodes: int
    """How many nodes it has, of the type with labels."""
    license: tuple[str, str]
    """Name and address, as https://ogb.stanford.edu/docs/nodeprop/ has them."""

    @property
    def url(self) -> str:
        """Where OGB offers the archive."""
        return f"{_ARCHIVES}{self.archive}.zip"

    @property
    def most_bytes(self) -> int:
        """Bytes that an archive of it may have: twice its size, which is known about."""
        return int(2e9 * float(self.size.removesuffix(" GB")))

    @property
    def folder(self) -> str:
        """What its folder is called."""
        return self.name.replace("-", "_")


_KNOWN_BY = {
    "ogbn-products": "5ea0a112edaec2141c0a2a612dd4aed58df97ff3e1ab1a0ca8238f43cbbb50a8",
    "ogbn-arxiv": "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276",
    "ogbn-mag": "2afe62ead87f2c301a7398796991d347db85b2d01c5442c95169372bf5a9fca4",
}
"""SHA-256 of archives. OGB publishes none; these are what other projects check them against
(GraphMLDatasets.jl products, GoMLX mag, several arxiv)."""

OGB_DATASETS = {
    name: OgbDataset(
        name=name, archive=archive, size=size, nodes=nodes, license=license_,
        sha256=_KNOWN_BY.get(name),
    )
    for name, archive, size, nodes, license_ in (
        ("ogbn-products", "products", "1.4 GB", 2_449_029, _AMAZON),
        ("ogbn-arxiv", "arxiv", "0.1 GB", 169_343, _ODC_BY),
        ("ogbn-mag", "mag", "0.4 GB", 736_389, _ODC_BY),
        ("ogbn-papers100M", "papers100M-bin", "57 GB", 111_059_956, _ODC_BY),
    )
}  # fmt: skip


def data_folder() -> Path:
    """Where data sets lie: `$SCR_DATA`, else `~/.cache/scr/data`."""
    given = os.environ.get(DATA_VARIABLE)
    return Path(given).expanduser() if given else Path.home() / ".cache" / "scr" / "data"


def find_dataset(name: str) -> Path:
    """The folder of a data set, which must be in the data folder."""
    folder = data_folder() / OGB_DATASETS[name].folder
    if not folder.is_dir():
        raise SourceError(
            f"`{name}` is not in the data folder: there is no `{folder}`",
            hint=f"get it with `scr download {name}`, or set ${DATA_VARIABLE} to the folder that "
            f"has `{folder.name}`",
        )
    return folder
