"""Limits of memory: control groups of both versions, nested ones, `ulimit`; on machines made of
files, and on this one where it allows that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scr.compute import available_bytes, memory_budget
from scr.compute._limits import memory_limits
from scr.errors import MemoryBudgetError

MIB, GIB = 2**20, 2**30
UNLIMITED = 9223372036854771712  # what version 1 says where there is no limit
V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw"
V1_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"


class Machine:
    """A machine made of files, with 64 GiB free."""

    def __init__(self, root: Path, *, cgroup: str = "", mounts: str = "", limits: str = "") -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal: {128 * GIB // 1024} kB\nMemAvailable: 67108864 kB\n")
        self.write("proc/self/cgroup", cgroup)
        self.write("proc/self/mountinfo", mounts)
        self.write("proc/self/limits", limits)
        self.write("proc/self/status", "Name:\tpython\nVmSize:\t 1048576 kB\nVmData:\t 524288 kB\n")

    def write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def group(self, folder: str, limit: object, used: int, cached: int = 0, high: object = "max"):
        """A group of version 2."""
        self.write(f"{folder}/memory.max", f"{limit}\n")
        self.write(f"{folder}/memory.high", f"{high}\n")
        self.write(f"{folder}/memory.current", f"{used}\n")
        self.write(f"{folder}/memory.stat", f"anon 7\ninactive_file {cached}\nactive_file 5\n")

    def old_group(self, folder: str, limit: int, used: int, cached: int = 0, hierarchy: int = 1):
        """A group of version 1."""
        self.write(f"{folder}/memory.limit_in_bytes", f"{limit}\n")
        self.write(f"{folder}/memory.usage_in_bytes", f"{used}\n")
        self.write(f"{folder}/memory.use_hierarchy", f"{hierarchy}\n")
        self.write(f"{folder}/memory.stat", f"inactive_file 3\ntotal_inactive_file {cached}\n")

    @property
    def available(self) -> int:
        return available_bytes(self.root)


def test_without_limits_it_is_what_the_machine_has(tmp_path):
    assert Machine(tmp_path).available == 64 * GIB
    assert memory_budget("auto", tmp_path) == int(0.8 * 64 * GIB)
    assert available_bytes(tmp_path / "nothing") > 0  # no /proc at all


def test_the_limit_of_a_container_counts_what_is_used_but_not_cached_files(tmp_path):
    machine = Machine(tmp_path, cgroup="0::/\n", mounts=V2_MOUNT)
    machine.group("sys/fs/cgroup", 4 * GIB, 3 * GIB, cached=GIB)
    assert machine.available == 2 * GIB
    machine.group("sys/fs/cgroup", "max", 3 * GIB)
    assert machine.available == 64 * GIB
    machine.group("sys/fs/cgroup", 8 * GIB, 3 * GIB, high=5 * GIB)  # throttled from there on
    assert machine.available == 2 * GIB


@pytest.mark.parametrize(("step", "job", "expected"), [("max", 8, 5), (6, 8, 5), (6, 16, 5.5)])
def test_every_group_above_counts(tmp_path, step, job, expected):
    machine = Machine(tmp_path, cgroup="0::/slurm/job_7/step_0\n", mounts=V2_MOUNT)
    limit = step if step == "max" else step * GIB
    machine.group("sys/fs/cgroup/slurm/job_7/step_0", limit, GIB // 2)
    machine.group("sys/fs/cgroup/slurm/job_7", job * GIB, 3 * GIB)
    machine.group("sys/fs/cgroup/slurm", "max", 3 * GIB)
    assert machine.available == expected * GIB


def test_version_1_is_read_beside_an_empty_version_2(tmp_path):
    cgroup = "4:memory:/job/step\n3:cpuset:/\n0::/\n"
    unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
    machine = Machine(tmp_path, cgroup=cgroup, mounts=f"{unified}\n{V1_MOUNT}\n")
    machine.old_group("sys/fs/cgroup/memory/job/step", UNLIMITED, GIB)
    machine.old_group("sys/fs/cgroup/memory/job", 3 * GIB, 2 * GIB, cached=GIB // 2)
    machine.old_group("sys/fs/cgroup/memory", UNLIMITED, 9 * GIB)
    assert machine.available == 3 * GIB // 2
    # Without hierarchy, a group above does not count what is used here.
    machine.old_group("sys/fs/cgroup/memory/job/step", UNLIMITED, GIB, hierarchy=0)
    assert machine.available == 64 * GIB


def test_a_mount_may_show_only_the_groups_of_a_container(tmp_path):
    mount = r"9 8 0:1 /docker/a\040b /mnt/my\040groups rw - cgroup cgroup rw,memory,cpu"
    machine = Machine(tmp_path, cgroup="4:cpu,memory:/docker/a b/inner\n", mounts=mount)
    machine.old_group("mnt/my groups/inner", 2 * GIB, GIB)
    assert machine.available == GIB
    # A path outside of what is shown: the topmost group is the one that is left to ask.
    machine.write("proc/self/cgroup", "4:cpu,memory:/other\n")
    machine.old_group("mnt/my groups", 5 * GIB, GIB)
    assert machine.available == 4 * GIB


def test_ulimit_counts_what_is_mapped_already(tmp_path):
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max cpu time              unlimited            unlimited            seconds   \n"
        f"Max data size             {6 * GIB}           unlimited            bytes     \n"
        f"Max address space         {4 * GIB}           unlimited            bytes     \n"
    )
    assert Machine(tmp_path, limits=limits).available == 3 * GIB  # 1 GiB is mapped
    limits = limits.replace(f"{4 * GIB}", "unlimited")
    assert Machine(tmp_path, limits=limits).available == 11 * GIB // 2  # 0.5 GiB are data


def test_a_group_that_is_used_up_has_nothing_and_never_less(tmp_path):
    machine = Machine(tmp_path, cgroup="0::/job\n", mounts=V2_MOUNT)
    machine.group("sys/fs/cgroup/job", 512 * MIB, 600 * MIB)
    assert machine.available == 0
    with pytest.raises(MemoryBudgetError) as caught:
        memory_budget("auto", tmp_path)
    assert caught.value.message == (
        "No memory is left: all 512.00MiB that the control group `/sys/fs/cgroup/job` allows are "
        "in use"
    )
    assert memory_budget("2GiB", tmp_path) == 2 * GIB  # what is asked for is not questioned


@pytest.mark.parametrize("text", ["", "0::", "garbage", "0:a:b:c\n::\n", "4:memory:/x", "\x00"])
def test_files_that_say_nonsense_say_nothing(tmp_path, text):
    machine = Machine(tmp_path, cgroup=text, mounts=text, limits=f"Max address space {text}")
    assert memory_limits(tmp_path) == []
    assert machine.available == 64 * GIB


SAY = "from scr.compute import available_bytes; print(available_bytes())"


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")
def test_ulimit_for_real():
    command = f"ulimit -v {3 * GIB // 1024}; exec '{sys.executable}' -c '{SAY}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 3 * GIB


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_nested_groups_of_version_1_for_real():
    above = Path(f"/sys/fs/cgroup/memory/scr-test-{os.getpid()}")
    inner = above / "inner"
    try:
        inner.mkdir(parents=True)
        (above / "memory.limit_in_bytes").write_text(str(700 * MIB))
    except OSError:
        if above.is_dir():
            above.rmdir()
        pytest.skip("this machine lets us make no control groups of version 1")
    try:
        enter = f"echo $$ > {inner}/cgroup.procs; exec '{sys.executable}' -c '{SAY}'"
        done = subprocess.run(["bash", "-c", enter], capture_output=True, text=True, check=True)
    finally:
        inner.rmdir()
        above.rmdir()
    assert 300 * MIB < int(done.stdout) < 700 * MIB
