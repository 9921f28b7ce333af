"""The page of a run as a browser shows it; skipped where there is no Chromium."""

import csv
import html
import json
import os
import re
import shutil
import subprocess

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from scr.report.page import run_page

HOSTILE = "<script>alert(1)</script>"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open pages with")

WATCH = """<script>
window.problems = [];
window.alert = (text) => window.problems.push("alert " + text);
window.addEventListener("error", (event) => window.problems.push(String(event.message)));
console.error = console.warn = (...all) => window.problems.push(all.join(" "));
</script>"""
ACT = """<script>
const rows = () => Array.from(document.querySelectorAll(".finder tbody tr"))
  .filter((row) => row.checkVisibility()).map((row) => Array.from(row.cells, (c) => c.textContent));
const type = (text) => {
  const field = document.querySelector(".finder input");
  field.value = text;
  field.dispatchEvent(new Event("input"));
};
const click = (column) => document.querySelectorAll(".finder thead button")[column].click();
const answer = {};
try { (() => { BODY })(); } catch (error) { window.problems.push(String(error)); }
answer.problems = window.problems;
const shown = document.createElement("pre");
shown.id = "answer";
shown.textContent = JSON.stringify(answer);
document.body.append(shown);
</script>"""


@pytest.fixture
def unlabeled_run(run_dir):
    """Thirty labeled nodes and thirty without a label, one with a hostile id."""
    generator = np.random.default_rng(1)
    ids = [HOSTILE, *[f"node-{number}" for number in range(1, 60)]]
    labels = [None if number < 30 else "dog" for number in range(60)]
    table = pyarrow.table(
        {
            "id": ids,
            "prediction": ["cat" if number % 3 else 'a "dog", big' for number in range(60)],
            "confidence": np.round(generator.uniform(0.4, 1.0, 60), 4),
            "split": [""] * 30 + ["valid"] * 15 + ["test"] * 15,
            "label": labels,
        }
    )
    pyarrow.parquet.write_table(table, run_dir / "predictions.parquet")
    return run_dir


def browse(run_dir, script="", *options):
    """What a script in the page of a run answers."""
    page = run_page(run_dir).replace("<head>", "<head>" + WATCH, 1)
    file = run_dir / "watched.html"
    file.write_text(page.replace("</body>", ACT.replace("BODY", script) + "</body>", 1))
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={run_dir / 'profile'}", "--virtual-time-budget=4000", *options,
         file.as_uri()],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "HOME": str(run_dir)},
    )  # fmt: skip
    found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


def test_a_page_opens_without_an_error_and_shows_hostile_ids_as_text(unlabeled_run):
    answer = browse(unlabeled_run, """
        answer.ids = rows().map((row) => row[0]);
        answer.tools = document.querySelector(".tools").checkVisibility();
        answer.loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
        answer.wide = document.documentElement.scrollWidth;
    """, "--window-size=1200,900")  # fmt: skip
    assert answer["problems"] == []
    assert answer["loaded"] == []
    assert answer["tools"]
    assert HOSTILE in answer["ids"]
    assert len(answer["ids"]) == 30
    assert answer["wide"] <= 1200


def test_search_and_sort_work_together(unlabeled_run):
    answer = browse(unlabeled_run, """
        type("NODE-1");
        answer.found = rows().map((row) => row[0]).sort();
        answer.said = document.querySelector(".finder output").textContent;
        click(2); answer.rising = rows().map((row) => parseFloat(row[2]));
        click(2); answer.falling = rows().map((row) => parseFloat(row[2]));
        answer.state = document.querySelectorAll(".finder th")[2].getAttribute("aria-sort");
        type(""); click(0); answer.ids = rows().map((row) => row[0]);
        type("no such node"); answer.nothing = rows().length;
    """)  # fmt: skip
    assert answer["problems"] == []
    assert answer["found"] == sorted(["node-1", *[f"node-{number}" for number in range(10, 20)]])
    assert answer["said"] == "11 of 30 rows"
    assert answer["rising"] == sorted(answer["rising"])
    assert answer["falling"] == answer["rising"][::-1]
    assert answer["state"] == "descending"
    assert answer["ids"] == [HOSTILE, *[f"node-{number}" for number in range(1, 30)]]
    assert answer["nothing"] == 0


def test_the_table_is_saved_as_it_is_shown(unlabeled_run):
    answer = browse(unlabeled_run, """
        let saved;
        const Real = Blob;
        window.Blob = class extends Real {
          constructor(parts, options) { super(parts, options); saved = parts; }
        };
        HTMLAnchorElement.prototype.click = function () { answer.name = this.download; };
        type("dog"); click(0);
        document.querySelector(".save").click();
        answer.csv = saved.join("");
    """)  # fmt: skip
    assert answer["problems"] == []
    assert answer["name"] == "unlabeled.csv"
    (unlabeled_run / "saved.csv").write_text(answer["csv"])
    table = pyarrow.parquet.read_table(unlabeled_run / "predictions.parquet").to_pylist()[:30]
    wanted = [row for row in table if row["prediction"] != "cat"]
    with (unlabeled_run / "saved.csv").open(newline="") as file:
        saved = list(csv.DictReader(file))
    assert [row["id"] for row in saved] == [row["id"] for row in wanted]
    assert [row["prediction"] for row in saved] == [row["prediction"] for row in wanted]
    assert [float(row["confidence"]) for row in saved] == [row["confidence"] for row in wanted]


def test_a_page_fits_a_phone(unlabeled_run):
    """Tables scroll inside the page; the page itself does not."""
    answer = browse(
        unlabeled_run,
        """
        const frame = document.createElement("iframe");
        frame.style.width = "390px";
        document.body.append(frame);
        frame.srcdoc = "";
        const inside = frame.contentDocument;
        inside.open();
        inside.write(document.documentElement.outerHTML.replace(/<script[^]*?<.script>/g, ""));
        inside.close();
        answer.wide = inside.documentElement.scrollWidth;
        answer.search = inside.querySelector(".tools").checkVisibility();
        answer.rows = inside.querySelectorAll(".finder tbody tr").length;
        """,
    )
    assert answer["problems"] == []
    assert answer["wide"] <= 390
    assert answer["rows"] == 30


@pytest.mark.parametrize(("scheme", "dark"), [("0", True), ("1", False)])
def test_a_page_and_its_charts_follow_the_scheme_of_the_reader(unlabeled_run, scheme, dark):
    answer = browse(unlabeled_run, """
        answer.text = getComputedStyle(document.body).color;
        answer.page = getComputedStyle(document.body).backgroundColor;
        answer.chart = getComputedStyle(document.querySelector(".canvas text")).fill;
    """, f"--blink-settings=preferredColorScheme={scheme}")  # fmt: skip

    def brightness(text):
        return sum(map(int, re.findall(r"\d+", text)[:3]))

    assert answer["problems"] == []
    for name in ("text", "chart"):
        assert (brightness(answer[name]) > brightness(answer["page"])) == dark


def test_without_scripts_the_table_is_there_and_its_tools_are_not(unlabeled_run):
    page = run_page(unlabeled_run)
    assert '<div class="tools" hidden>' in page
    assert page.count('<tr><th scope="row" class="whole">') >= 30
