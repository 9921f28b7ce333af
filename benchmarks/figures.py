"""The paper's two figures on graphs that are at hand: training efficiency and sensitivity.

    python benchmarks/figures.py efficiency --graph wordnet
    python benchmarks/figures.py efficiency --graph products-like
    python benchmarks/figures.py sensitivity --graph dblp_citation

Each is one call of `scr efficiency` or `scr sweep`, which keep every finished run and go on where
they were; the call is printed and recorded. What they write is kept, without the single runs, in
`results/efficiency/GRAPH.json` and `results/sensitivity/GRAPH.json`; `docs/results.md` is drawn
from there. `products-like` is a synthetic graph, made by `scr synth`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

from code_version import code_version
from scr.runs import write_json

HERE = Path(__file__).parent
ROOT = HERE.parent
SYNTHETIC = {
    "nodes": 20_000,
    "edges": 250_000,
    "features": 100,
    "classes": 47,
    "homophily": 0.6,
    "signal": 0.6,
    "label-fraction": 0.08,
    "valid-fraction": 0.02,
    "shift": 1.0,
}
"""Like ogbn-products in classes, features and share of labels, and in that test nodes differ."""
SEEDS = "3"
VALUES = (
    "--values=weight=0.03,0.3,1,3,10",
    "--values=threshold=0,0.5,0.7,0.9,0.99",
    "--values=decay=0,0.5,0.9,0.97,0.99",
    "--values=temperature=0.1,0.5,1",
)


def run(*arguments: str) -> None:
    """Call the command line in the repository's folder, so that recorded paths are relative."""
    print("scr", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "scr.cli", *arguments], cwd=ROOT, check=True)


def source(name: str, data: str) -> list[str]:
    """The graph of a figure, made if it is synthetic, with its splits."""
    if name == "products-like":
        options = [f"--{key}={value}" for key, value in SYNTHETIC.items()]
        mark = hashlib.blake2b(" ".join(options).encode(), digest_size=4).hexdigest()
        store = Path("benchmarks") / ".cache" / name / f"store-{mark}"
        if not (ROOT / store).exists():
            run("synth", str(store), *options)
        return [str(store)]
    splits = f"{data}/splits/{name}.npz"
    return [f"{data}/{name}.npz", *(["--splits", splits] if (ROOT / splits).exists() else [])]


def draw(figure: str, name: str, data: str, jobs: int) -> None:
    """Run one figure's command and keep what it found."""
    version = code_version(figure)
    out = Path("benchmarks") / ".cache" / name / f"{figure}-{version}"
    command = {"efficiency": "efficiency", "sensitivity": "sweep"}[figure]
    run(
        command,
        *source(name, data),
        *("--encoder", "gamlp", "--seeds", SEEDS, "--jobs", str(jobs)),
        *(VALUES if figure == "sensitivity" else ()),
        *("--recipe", f"benchmarks/settings/{figure}-{name}.toml", "--out", str(out)),
    )
    result = json.loads((ROOT / out / f"{command}.json").read_text(encoding="utf-8"))
    result.pop("runs")
    result["code"] = version
    folder = HERE / "results" / figure
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", result)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", choices=["efficiency", "sensitivity"])
    parser.add_argument("--graph", required=True)
    parser.add_argument("--data", default="../shared/data", help="relative to the repository")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    draw(arguments.figure, arguments.graph, arguments.data, arguments.jobs)


if __name__ == "__main__":
    main()
