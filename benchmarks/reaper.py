"""Run one command and say how long it took and how much memory it had, in a process of its own.

    python -S -E reaper.py REPORT KILL_AFTER COMMAND...

A process starts its life with the memory of the one that starts it, and Linux counts that into its
peak. So the starter has to be small: this file imports next to nothing. Writes JSON to REPORT.
"""

import os
import signal
import sys
import time


def main() -> None:
    """Start, wait, report."""
    report, kill_after, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    if kill_after > 0:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, kill_after)
    _, status, usage = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.perf_counter() - started
    with open(report, "w") as file:  # noqa: PTH123 - pathlib would be most of this process
        file.write(
            f'{{"seconds": {seconds}, "processor_seconds": {usage.ru_utime + usage.ru_stime}, '
            f'"memory_bytes": {usage.ru_maxrss * 1024}, '
            f'"code": {os.waitstatus_to_exitcode(status)}}}'
        )


if __name__ == "__main__":
    main()
