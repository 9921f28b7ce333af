"""Check pages with axe-core in Chromium, in light and in dark.

    python benchmarks/accessibility.py                  # pages of small runs, made for this
    python benchmarks/accessibility.py RUN/report.html  # pages that are there

Needs `npm`, which fetches axe-core, and Chromium. Ends with an error where axe finds something that
is serious or critical. Every `<details>` is opened first, so that what is folded is checked too.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

AXE = "axe-core@4.10.3"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCHEMES = {"light": "1", "dark": "0"}
"""Values of the setting `preferredColorScheme` of Chromium."""
BAD = ("serious", "critical")
RUN_AXE = """
for (const each of document.querySelectorAll("details")) each.open = true;
axe.run().then((found) => {
  const shown = document.createElement("pre");
  shown.id = "axe";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const rows = found.violations.map((each) => ({
    id: each.id, impact: each.impact, help: each.help,
    nodes: each.nodes.map((node) => node.html.slice(0, 160)),
  }));
  shown.textContent = JSON.stringify({ dark, passes: found.passes.length, rows });
  document.body.append(shown);
});
"""


def main() -> None:
    """Check each page in both schemes, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    pages = parser.parse_args().pages
    browser = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if browser is None or shutil.which("npm") is None:
        sys.exit("This needs `npm` and `chromium`; one of them is not installed")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        script = axe_script(work)
        for page in pages or made_pages(work):
            for scheme, value in SCHEMES.items():
                found = checked(page, script, browser, value, work)
                if found["dark"] != (scheme == "dark"):
                    sys.exit(f"Chromium did not show `{page}` in {scheme}")
                worst = [row for row in found["rows"] if row["impact"] in BAD]
                bad += len(worst)
                print(f"{page} {scheme}: {found['passes']} rules passed, {len(worst)} serious")
                for row in found["rows"]:
                    print(f"  {row['impact']}: {row['id']}, {row['help']}")
                    print("".join(f"    {node}\n" for node in row["nodes"][:3]), end="")
    sys.exit(1 if bad else 0)


def axe_script(work: Path) -> str:
    """The text of axe-core, fetched by npm."""
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(work), AXE],
        check=True,
    )
    return (work / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def checked(page: Path, script: str, browser: str, scheme: str, work: Path) -> dict[str, Any]:
    """What axe finds in a page in one color scheme."""
    text = page.read_text(encoding="utf-8")
    end = f"<script>{script}</script><script>{RUN_AXE}</script></body>"
    copy = work / "checked.html"
    copy.write_text(end.join(text.rsplit("</body>", 1)), encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={work / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}",
         "--virtual-time-budget=60000", copy.as_uri()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r'<pre id="axe">(.*?)</pre>', done.stdout, re.DOTALL)
    if found is None:
        sys.exit(f"axe did not answer for `{page}`: {done.stderr[-500:]}")
    content: dict[str, Any] = json.loads(html.unescape(found[1]))
    return content


def made_pages(work: Path) -> list[Path]:
    """Pages of runs of several kinds: with and without unlabeled nodes, of several targets, tuned,
    compared.
    """
    commands = {
        "train": ["train", "digits"],
        "compare": ["compare", "digits", "--encoders", "sgc", "--regularizers", "none,scr",
                    "--seeds", "2", "--set", "training.epochs=20"],
        "tune": ["tune", "digits", "--time", "5s"],
    }  # fmt: skip
    pages = []
    for name, command in commands.items():
        out = work / name
        subprocess.run(
            [sys.executable, "-m", "scr.cli", *command, "--out", str(out)], check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        pages.append(out / "report.html")
    return [*pages, *unlabeled_pages(work)]


def unlabeled_pages(work: Path) -> list[Path]:
    """Pages of a graph with unlabeled nodes, with one class per node and with several targets."""
    import numpy as np

    import scr
    from scr.report.page import run_page, write_page

    generator = np.random.default_rng(0)
    labels = generator.integers(0, 14, 2_000)
    edges = generator.integers(0, 2_000, (2, 20_000))
    edges = edges[:, labels[edges[0]] == labels[edges[1]]]
    features = generator.standard_normal((2_000, 16)).astype(np.float32)
    known = np.where(np.arange(2_000) < 900, labels, -1)
    targets = np.where(known[:, None] < 0, -1, known[:, None] % [2, 3, 5] == 0).astype(np.int8)
    pages = []
    for name, each, names in (
        ("classes", known, [f"class number {place}" for place in range(14)]),
        ("targets", targets, ["even", "third", "fifth"]),
    ):
        graph = scr.Graph.from_edges(
            edges, features=features, labels=each, class_names=names, name=name,
            train=np.arange(300), valid=np.arange(300, 600), test=np.arange(600, 900),
            ids=np.array([f"node-{place:04d}" for place in range(2_000)]),
        )  # fmt: skip
        run = work / f"{name}-run"
        scr.NodeClassifier("sign", "none", epochs=20).fit(graph).save(run)
        pages.append(write_page(run / "report.html", run_page(run)))
    return pages


if __name__ == "__main__":
    main()
