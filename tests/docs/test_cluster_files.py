"""The files of the guide to clusters: Ray takes what it shows, and commands in them exist."""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.conftest import make_random_graph
from tests.docs.blocks import read_blocks
from tests.docs.shell import REPOSITORY, check, commands

pytest.importorskip("ray", reason="Ray is not installed")
jsonschema, yaml = pytest.importorskip("jsonschema"), pytest.importorskip("yaml")

PAGE = "docs/guides/cluster.md"


@pytest.fixture(scope="module")
def blocks():
    text = (REPOSITORY / PAGE).read_text(encoding="utf-8")
    return [block.text for block in read_blocks(text, PAGE) if block.language == "text"]


def only(blocks, mark):
    (found,) = [block for block in blocks if mark in block]
    return found


def check_ray(words):
    from ray.scripts.scripts import cli

    if words == ["export", "RAY_AUTH_MODE=token"]:
        return
    assert words[0] == "ray"
    command = cli.commands[words[1]]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_every_line_is_a_command_that_exists(blocks):
    lines = [block for block in blocks if block.startswith(("export ", "scr "))]
    assert len(lines) == 5
    for words in (words for block in lines for words in commands(block)):
        (check if words[0] == "scr" else check_ray)(words)


def test_the_launcher_takes_the_file_of_a_cluster(blocks):
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load(only(blocks, "cluster_name:")))
    validate_config(config)  # raises where a field is unknown or missing
    assert config["max_workers"] == len(config["provider"]["worker_ips"]) == 2
    with pytest.raises(jsonschema.ValidationError, match="nothing_known"):
        validate_config({**config, "nothing_known": 1})


def test_the_job_of_kubernetes_is_whole(blocks):
    job = yaml.safe_load(only(blocks, "kind: RayJob"))
    cluster = job["spec"]["rayClusterSpec"]
    for words in commands(job["spec"]["entrypoint"]):
        check(words)
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        mounted = {each["name"] for each in container["volumeMounts"]}
        assert mounted == {each["name"] for each in pod["volumes"]}
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        check_ray(["ray", "start", *(f"--{name}" for name in group["rayStartParams"])])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_job_of_slurm_is_a_script_of_commands_that_exist(blocks):
    script = only(blocks, "#SBATCH")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    lines = [words for words in commands(script) if words[0] in ("ray", "srun", "scr")]
    assert [words[0] for words in lines] == ["ray", "ray", "srun", "scr"]
    for words in lines:
        if words[0] == "scr":
            check(words)
        else:
            check_ray(words[words.index("ray") :])


SRUN = """#!/bin/bash
tasks=1
while [[ $1 == --* ]]; do [[ $1 == --ntasks=* ]] && tasks=${1#*=}; shift; done
for ((i = 0; i < tasks; i++)); do "$@" & done
wait
"""
"""Runs a command so many times, all on this machine."""


@pytest.mark.stress
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_job_of_slurm_compares_on_three_nodes(blocks, tmp_path):
    """The script itself, with an `srun` that knows this machine only; nobody has a token before."""
    programs, home, other = (tmp_path / name for name in ("bin", "home", "other"))
    for folder in (programs, home, other):
        folder.mkdir()
    (programs / "srun").write_text(SRUN)
    (programs / "srun").chmod(0o755)
    store = make_random_graph().save(tmp_path / "graph.store")
    with socket.socket() as free:
        free.bind(("", 0))
        port = str(free.getsockname()[1])
    quick = "--encoders sgc --regularizers none --seeds 3 --set training.epochs=3 --engine ray"
    script = only(blocks, "#SBATCH").replace("6379", port).replace("--engine ray", quick)
    script = script.replace("/shared/graph.store", str(store)).replace("/shared", str(tmp_path))
    found = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    known = {**os.environ, "PATH": found, "HOME": str(home), "SLURM_CPUS_PER_TASK": "1"}
    known.pop("RAY_AUTH_MODE", None)
    words = ["compare", store, "--out", tmp_path / "again", *quick.split(), "--address",
             f"127.0.0.1:{port}"]  # fmt: skip

    def run(folder):
        return subprocess.run(
            [sys.executable, "-m", "scr.cli", *map(str, words)], env={**known, "HOME": str(folder)},
            check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    try:
        subprocess.run(["bash", "-c", script], env=known, check=True, timeout=300)
        refused, taken = run(other), run(home)
    finally:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if port in " ".join(process.cmdline()):
                    process.kill()
    result = json.loads((tmp_path / "result" / "compare.json").read_text(encoding="utf-8"))
    assert len(result["runs"]) == 3
    assert "wants a token that this machine does not have" in refused.stderr
    assert taken.returncode == 0, taken.stderr
