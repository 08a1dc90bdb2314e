"""Start a command from a small process: the system counts a parent's memory into its child's peak.

A program of its own: ``python -S launch.py REPORT COMMAND…`` writes when the command began and
ended (seconds of the monotonic clock), its CPU seconds, its peak in KiB and its exit status.
"""

import os
import sys
import time


def main() -> None:
    """Run the command with this process's streams."""
    began = time.monotonic()
    pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
    _, status, usage = os.wait4(pid, 0)
    ended = time.monotonic()
    cpu = usage.ru_utime + usage.ru_stime
    with open(sys.argv[1], "w", encoding="ascii") as report:
        code = os.waitstatus_to_exitcode(status)
        report.write(f"{began} {ended} {cpu} {usage.ru_maxrss} {code}")


if __name__ == "__main__":
    main()
