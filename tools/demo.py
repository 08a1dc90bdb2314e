"""``make demo``: kgtool's main jobs on a real Kafka on this machine, every command shown.

It starts a sandbox of its own, fills it with the groups that an admin meets, shows what kgtool
says of them, deletes an offset, exports ``__consumer_offsets`` and analyses it, and stops
everything again, also when it is interrupted or a step fails.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
NAME = "demo"
WIDTH = 100


class DemoFailed(Exception):
    """A step did not end as it should."""


def say(text: str) -> None:
    """Print a heading."""
    bold, plain = ("\033[1;36m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}── {text} {'─' * max(3, WIDTH - len(text) - 4)}{plain}", flush=True)


def kgtool(*args: str, expect: int = 0, lines: int | None = None) -> str:
    """Run kgtool as a user would, show the command line, the output and the exit status."""
    shown = "kgtool " + " ".join(shlex.quote(arg) for arg in args)
    print(f"\n$ {shown}", flush=True)
    command = [str(BIN / "kgtool"), *args]
    if lines is None:
        done = subprocess.run(command, check=False)
        out = ""
    else:
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        out = done.stdout
        rows = out.splitlines()
        print("\n".join(rows[:lines]))
        if len(rows) > lines:
            print(f"… and {len(rows) - lines} more lines")
    if done.returncode != expect:
        raise DemoFailed(f"{shown}: exit status {done.returncode}, expected {expect}")
    if expect:
        print(f"(exit status {done.returncode})", flush=True)
    return out


def tour(server: tuple[str, str], work: Path) -> None:
    """Show every command."""
    say("Which groups are there?")
    kgtool("list", *server, "--match", "[!cl]*", "--match", "connect-*")
    kgtool(*server, "--list", "--state", "Stable")

    say("A classic and a KIP-848 group: offsets, members, state")
    kgtool(*server, "--describe", "--group", "billing", "--group", "shipping-848")
    kgtool("describe", *server, "--group", "fulfilment", "--members", "--verbose")
    kgtool("describe", *server, "--group", "shipping-848", "--state", "--verbose")

    say("What Kafka's own tool hides: commits beyond the end, pending transactions")
    kgtool(
        "describe",
        *server,
        "--group",
        "stock-sync",
        "--group",
        "auditor",
        "--group",
        "transfers",
        "--group",
        "no-such-group",
        expect=3,
    )

    say("KIP-496: one offset deleted, one refused (subscribed), one unknown partition")
    kgtool(
        *server,
        "--delete-offsets",
        "--group",
        "billing",
        "--topic",
        "payments:0,99",
        "--topic",
        "orders:0",
        expect=3,
    )
    kgtool("delete-offsets", *server, "--group", "shipping-848", "--topic", "payments", "--dry-run")
    kgtool("delete", *server, "--match", "console-consumer-1000*", "--yes")
    kgtool("describe", *server, "--group", "reporting", "-o", "json", lines=6)

    say("What is wrong here, and what to type against it")
    kgtool("doctor", *server, expect=5)

    say("Two hundred dead groups: a plan, applied, taken back")
    plan = str(work / "plan.json")
    kgtool("cleanup", "plan", *server, "--generated", "--out", plan, lines=5)
    kgtool("cleanup", "apply", plan, *server, "--yes", lines=5)
    kgtool("undo", "last", *server, "--yes", lines=5)
    kgtool("history", *server)

    say("The broker's own bytes of __consumer_offsets, and what will expire when")
    kgtool("export", *server, "--out", str(work / "export"))
    report = Path(tempfile.gettempdir()) / "kgtool-demo.html"
    kgtool(
        "analyze",
        str(work / "export"),
        "--out",
        str(work / "tables"),
        "--report",
        str(report),
        "--overwrite",
    )


def main() -> int:
    """Run the demo; 0 if every step ended as it should."""
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="kgtool-demo-"))
    # The demo's Kafka is its own: it neither uses nor disturbs a sandbox of the user's.
    os.environ["XDG_STATE_HOME"] = str(work / "state")
    failed = None
    try:
        say("A real Apache Kafka on this machine")
        kgtool("sandbox", "up", "--name", NAME)
        kgtool("sandbox", "seed", "--name", NAME)
        status = subprocess.run(
            [str(BIN / "kgtool"), "sandbox", "status", "--name", NAME, "-o", "json"],
            check=True,
            capture_output=True,
            text=True,
        )
        bootstrap = json.loads(status.stdout)["results"][0]["bootstrap"]
        tour(("--bootstrap-server", bootstrap), work)
    except DemoFailed as error:
        failed = str(error)
    except KeyboardInterrupt:
        failed = "interrupted"
    finally:
        say("Everything stopped again")
        subprocess.run([str(BIN / "kgtool"), "sandbox", "down", "--name", NAME], check=False)
        shutil.rmtree(work, ignore_errors=True)
    print(f"\nThe demo took {time.monotonic() - began:.0f} s.")
    if failed:
        print(f"The demo failed: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
