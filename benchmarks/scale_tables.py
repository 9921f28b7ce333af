"""Tables about speed and scale for the results page, from JSON; what was not measured is left out.

`readme.py` puts them into docs/results.md.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from typing import Any

from harness import RESULTS, size
from processes import summary

GIB = 2**30


def scale_lines() -> list[str]:
    """All sections, in order."""
    return [*propagation_lines(), *block_width_lines(), *curve_lines(), *budget_lines(),
            *papers_lines(), *products_lines(), *cluster_lines()]  # fmt: skip


def read(name: str) -> dict[str, Any] | None:
    """One result, if it is there."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def propagation_lines() -> list[str]:
    """One hop and all hops beside peers, and the memory's own speed."""
    found = read("propagation")
    if found is None:
        return []
    limits = found.get("memory_gb_per_second")
    lines = [
        "## Speed of propagation",
        "",
        f"{found['nodes']:,} nodes, {found['undirected_edges']:,} undirected edges, "
        f"{found['columns']} columns, {found['threads']} threads; medians of rounds in which all "
        f"took turns. Gathered: bytes of neighbors' rows per second. Printed by "
        f"`{found['command']}` on {found['processor']}.",
        "",
    ]
    if limits:
        speeds = ", ".join(f"{name} {speed:.1f}" for name, speed in limits.items())
        lines += [f"This machine's memory, in GB/s: {speeds}.", ""]
    hops = found["all_hops"]
    for title, rows in (
        ("one hop", found["one_hop"]),
        (f"from graph to {hops['hops']} hops", hops["rows"]),
    ):
        reading = [" × reading memory |", " --- |"] if limits else ["", ""]
        lines += [
            f"| {title} | seconds | × torch | gathered GB/s |{reading[0]}",
            f"| --- | --- | --- | --- |{reading[1]}",
            *(
                f"| {row['name']} | {row['median_seconds']:.2f} | {row['times_torch']:.2f} | "
                f"{row['gathered_gb_per_second']:.1f} |"
                + (f" {row['times_read_bandwidth']:.2f} |" if limits else "")
                for row in rows
            ),
            "",
        ]
    return lines


def block_width_lines() -> list[str]:
    """What the widths of blocks of columns are chosen by."""
    found = read("block-widths")
    if found is None:
        return []
    settings, rows = found["settings"], found["rows"]
    hops = [row for row in rows if row["what"] == "all hops"]
    return [
        "### Blocks of columns",
        "",
        f"{settings['nodes']:,} nodes, {settings['degree']} edges each, {settings['threads']} "
        f"threads (`{found['command']}` on {found['processor']}). Narrow rows stay in the caches, "
        "and vectors that straddle cache lines are slow:",
        "",
        "| columns of a block | type | ns per edge and column |",
        "| --- | --- | --- |",
        *(
            f"| {row['columns']} | {row['dtype']} | {row['ns_per_edge_and_column']:.3f} |"
            for row in rows
            if row["what"] == "one hop"
        ),
        "",
        f"So {settings['hops']} hops are computed in blocks of 128 bytes of each row, padded and "
        "apart from the result, unless rows in float32 are whole vectors already:",
        "",
        "| columns | type | seconds in the result | seconds apart from it |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['columns']} | {row['dtype']} | {row['whole']:.2f} | {row['apart']:.2f} |"
            for row in hops
        ),
        "",
        *(
            f"Label hops of {row['columns']} classes take {row['padded']:.2f} s padded to whole "
            f"vectors, {row['as they are']:.2f} s as they are."
            for row in rows
            if row["what"] == "label hops"
        ),
        "",
    ]


def curve_lines() -> list[str]:
    """Time and memory against size."""
    found = read("scale")
    if found is None:
        return []
    settings = found["settings"]
    names = {"torch": "torch, in memory, float32", "scipy": "SciPy, in memory, float32"}
    lines = [
        "## Time and memory against size",
        "",
        f"{settings['degree']} undirected edges per node, {settings['columns']} columns, "
        f"{settings['hops']} hops; each step a process of its own with at most "
        f"{settings['memory']}, ours in float16 and out of core, kept for labeled nodes: of "
        "the last hop only their rows are computed, and it counts as that share of a hop; of the "
        "one before only rows that these need, and it counts as a whole hop. Memory "
        f"is the peak of the whole process. Printed by `{found['command']}`.",
        "",
        "| nodes | step | seconds | ns per edge and hop | memory | disk at the peak |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(found["rows"], key=lambda row: row["nodes"]):
        pace, step = row.get("ns_per_edge_and_hop"), row["step"]
        lines.append(
            f"| {row['nodes']:,} | {names.get(step, f'`scr {step}`')} | "
            f"{row['seconds']:,.1f} | {'' if pace is None else f'{pace:.2f}'} | "
            f"{size(row['memory_bytes'])} | {size(row['disk_peak_bytes'])} |"
        )
    lines += ["", *roofline_sentence()]
    figure = "![Seconds and memory against the number of nodes](assets/figures/scale.svg)"
    return [*lines, "", figure, ""]


def roofline_sentence() -> list[str]:
    """What this machine's memory allows for rows of one cache line."""
    found = read("roofline")
    if found is None:
        return []
    rows = [row for row in found["rows"] if row["what"] == "random lines" and row["large_pages"]]
    best = max(rows, key=lambda row: row["threads"])
    paces = [row["gb_per_second"] for row in found["rows"] if row["what"] == "cached writes"]
    written = ""
    if paces:
        written = (
            f"; files through the page cache, {paces[1]:.1f} GB/s in writes of 128 KiB and "
            f"{paces[0]:.1f} of 64 MiB"
        )
    return [
        f"The limit of narrow rows on {found['processor']}: {best['ns_per_line']:.1f} ns for a "
        f"cache line anywhere in {found['settings']['gigabytes']:.0f} GiB, with "
        f"{best['threads']} threads and large pages, and {best['touched_gb_per_second']:.1f} GB/s "
        f"for memory that is touched for the first time{written} (`{found['command']}`)."
    ]


def cluster_lines() -> list[str]:
    """Workers of one thread each on one machine, beside threads of one process."""
    found = read("cluster")
    if found is None:
        return []
    rows = [row for row in found["rows"] if row["graph"] == "large"]
    keys = sorted({(row["workers"], row["engine"]) for row in rows})

    def median(key: tuple[int, str], name: str) -> float:
        return statistics.median(
            row[name] for row in rows if (row["workers"], row["engine"]) == key
        )

    counts = Counter((row["workers"], row["engine"]) for row in rows).values()
    fewest, most = min(counts, default=0), max(counts, default=0)
    settings, names = found["settings"], {"parts": "local, parts on disk"}
    return [
        "## Workers of a Ray cluster",
        "",
        f"{settings['nodes']:,} nodes, {settings['edges']:,} undirected edges, "
        f"{settings['columns']} columns in {settings['dtype']}, {settings['hops']} hops, on one "
        "machine: workers of one thread each, and the local engine with as many threads, which "
        "writes the hops once, or, with 2 GiB of memory, parts of them first, as workers do; each "
        "with as many cores, as far as there are so many (2). All make the same bytes. "
        "Seconds until the hops are put together, and in all, without the start of the cluster; "
        f"medians of {fewest if fewest == most else f'{fewest} to {most}'} "
        f"(`{found['command']}` on {found['processor']}).",
        "",
        "| engine | workers or threads | products | in all |",
        "| --- | --- | --- | --- |",
        *(
            f"| {names.get(engine, engine)} | {workers} | "
            f"{median((workers, engine), 'passes_seconds'):.1f} s | "
            f"{median((workers, engine), 'work_seconds'):.1f} s |"
            for workers, engine in keys
        ),
        "",
        *_limit_lines(),
        *_training_lines(),
    ]


def _limit_lines() -> list[str]:
    """What the machine gives to processes that only multiply."""
    found = read("processes")
    if found is None:
        return []
    settings, rows = found["settings"], found["rows"]
    return [
        "What the machine gives to processes that share it: a hop of the same features, by nothing "
        f"but products in memory. {summary(rows, settings['processes'])} (medians of {len(rows)} "
        f"rounds, from the least to the most, `{found['command']}` on {found['processor']}). "
        "Processes have a matrix each, and threads share one, beside a cache that all cores share; "
        "what changes from round to round was not found out.",
        "",
    ]


def _training_lines() -> list[str]:
    """Epochs by workers, beside those of one process."""
    found = read("cluster_training")
    if found is None:
        return []
    settings, rows = found["settings"], found["rows"]
    keys = sorted({(row["workers"], row["engine"]) for row in rows})
    seconds = {
        key: statistics.median(
            row["train_seconds"] / row["epochs"]
            for row in rows
            if (row["workers"], row["engine"]) == key
        )
        for key in keys
    }
    return [
        f"An epoch of GAMLP + SCR, hidden {settings['hidden']}, on hops of {settings['nodes']:,} "
        f"nodes, with validation (`{found['command']}` on {found['processor']}):",
        "",
        "| engine | workers or threads | seconds per epoch |",
        "| --- | --- | --- |",
        *(f"| {engine} | {workers} | {seconds[workers, engine]:.1f} |" for workers, engine in keys),
        "",
    ]


def budget_lines() -> list[str]:
    """A graph within a given memory, and what kills do to it."""
    found = read("budget")
    if found is None:
        return []
    rows = {row["step"]: row for row in found["rows"]}
    if "propagate" not in rows:
        return []
    settings, made = found["settings"], rows["propagate"]
    lines = [
        "## Within a given memory",
        "",
        f"- {settings['nodes']:,} nodes, {settings['edges']:,} undirected edges, "
        f"{settings['columns']} columns, {settings['hops']} hops with `--memory "
        f"{settings['memory']}`: {made['seconds']:,.0f} s, peak memory of the process "
        f"{made['memory_bytes'] / GIB:.2f} GiB (`{found['command']}`).",
    ]
    if check := rows.get("check"):
        lines.append(
            f"- {check['columns_compared_in_memory']} columns of all hops are "
            f"{'' if check['in_memory_equal'] else 'NOT '}those that are made in memory, bit for "
            f"bit; {check['rows_compared_with_numpy']:,} rows of the first hop are NumPy's, within "
            f"{check['worst_error']:.2f} of what rounding to float16 allows."
        )
    if killed := rows.get("killed"):
        moments = ", ".join(f"{moment:,.0f}" for moment in killed["killed_after_seconds"])
        lines.append(
            f"- Killed {len(killed['killed_after_seconds'])} times, {moments} s after it was "
            f"started, and started again: the hops are "
            f"{'the same bytes' if killed['same_bytes'] else 'NOT the same bytes'}."
        )
    return [*lines, ""]


def papers_lines() -> list[str]:
    """The steps of the graph like ogbn-papers100M."""
    found = read("papers")
    if found is None:
        return []
    return [
        "## A graph of the size of ogbn-papers100M",
        "",
        "A synthetic graph with as many nodes, edges, features, classes and labeled nodes, each "
        f"step one command in a process of its own (`{found['command']}` on {found['processor']}).",
        "",
        *_steps(found["rows"]),
        "",
    ]


def papers_sentence() -> list[str]:
    """For the README: the peaks over all steps, and what each step took."""
    found = read("papers")
    if found is None or "predict" not in {row["step"] for row in found["rows"]}:
        return []
    rows = found["rows"]
    return [
        "- A synthetic graph of the size of ogbn-papers100M (111 million nodes, 1.6 billion edges) "
        f"from raw files to predictions: {sum(row['seconds'] for row in rows) / 60:,.0f} minutes, "
        f"at most {max(row['memory_bytes'] for row in rows) / GIB:.1f} GiB of memory and "
        f"{size(max(row['disk_peak_bytes'] for row in rows))} of disk "
        f"(`{found['command']}`).",
        "",
        "| step | minutes | memory | disk at the peak |",
        "| --- | --- | --- | --- |",
        *(
            f"| `scr {row['step']}` | {row['seconds'] / 60:.1f} | {size(row['memory_bytes'])} | "
            f"{size(row['disk_peak_bytes'])} |"
            for row in rows
        ),
    ]


def products_lines() -> list[str]:
    """The run like ogbn-products, and the official preprocessing beside ours."""
    found = read("products")
    if found is None:
        return []
    lines = [
        "## A graph of the size of ogbn-products",
        "",
        "A synthetic graph with as many nodes, edges, features, classes and training nodes "
        f"(`{found['command']}`).",
        "",
        *_steps([row for row in found["rows"] if row["step"] not in ("matching", "official")]),
        "",
    ]
    compared = read("preprocessing") or found
    rows = {row["step"]: row for row in compared["rows"]}
    if "matching" in rows and "official" in rows:
        lines += [
            "The official preprocessing on the same graph: its own script, unmodified, with "
            "torch's CSR product in the place of CogDL's. Ours with the same normalization, hops "
            f"and type (`{compared['command']}` on {compared['processor']}):",
            "",
            "| | seconds | of which propagation | memory |",
            "| --- | --- | --- | --- |",
            *(
                f"| {name} | {row['seconds']:,.1f} | {row['work_seconds']:,.1f} | "
                f"{size(row['memory_bytes'])} |"
                for name, row in (
                    ("`scr propagate`", rows["matching"]), ("official", rows["official"]),
                )
            ),
            "",
        ]  # fmt: skip
    return lines


def _steps(rows: list[dict[str, Any]]) -> list[str]:
    # Commands are long: below the table, where they do not push its numbers out of sight.
    return [
        "| step | seconds | memory | disk at the end | disk at the peak |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| `scr {row['step']}` | {row['seconds']:,.0f} | {size(row['memory_bytes'])} | "
            f"{size(row['disk_bytes'])} | {size(row['disk_peak_bytes'])} |"
            for row in rows
        ),
        "",
        *(f"- `{row['command']}`" for row in rows),
    ]
