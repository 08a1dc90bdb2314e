"""A headless Chromium, driven over its own pipe (Chrome DevTools Protocol), without a network."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 120
"""For one answer, on a machine that does a lot else."""


AXE = Path("kgtool", "axe", "node_modules", "axe-core", "axe.min.js")
"""Below the user's folder of caches: where tools/packages.sh puts axe-core."""


def find() -> str:
    """The program; a failure that says how to get it."""
    for name in NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    raise AssertionError(
        "The report is tested in a real browser and there is none: install Chromium (Debian: "
        "apt-get install chromium)."
    )


class Page:
    """One page of a running browser."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, answers: int) -> None:
        self.process = process
        self._to, self._from = to, answers
        self._buffer = b""
        self._last = 0
        self.session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def open(
        self,
        url: str,
        width: int = 1280,
        height: int = 900,
        *,
        dark: bool = False,
        ready: bool = True,
    ) -> None:
        """Load a page and wait until it says that it is ready."""
        if self.session is None:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            found = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self.session = found["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        self.resize(width, height)
        self.prefer(dark=dark)
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=url)
        if ready:
            self.wait_for("document.documentElement?.dataset.ready === 'yes'")

    def resize(self, width: int, height: int) -> None:
        """Give the window a size, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, *, dark: bool) -> None:
        """Let the system prefer a dark or a light theme."""
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, of a promise when it is kept; as if by a click."""
        found = self.call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        until = time.monotonic() + SECONDS
        while not self.run(condition):
            assert time.monotonic() < until, f"{condition} did not come true: {self.complaints}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Click the first element that a selector finds, and wait until it is done."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing on the page is busy."""
        self.wait_for("document.querySelector('[aria-busy=true]') === null")

    def type(self, selector: str, text: str) -> None:
        """Put text into a field, as if it were typed."""
        self.run(
            f"(() => {{ const field = document.querySelector({json.dumps(selector)});"
            f"field.value = {json.dumps(text)};"
            "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )
        self.settle()

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key of the keyboard, such as ArrowRight, Tab or Enter."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37, "ArrowRight": 39}.get(key, 0)
        parts: dict[str, Any] = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": code,
            "modifiers": 8 if shift else 0,
        }
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", **parts, **({"text": text} if text else {})
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **parts)
        self.settle()

    def barriers(self) -> list[str]:
        """What axe-core finds on the page that is serious or worse."""
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / AXE
        assert place.exists(), "There is no axe-core: tools/packages.sh installs it (npm)."
        self.run(place.read_text(encoding="utf-8") + ";0")
        found: list[str] = self.run(
            "axe.run().then(all => all.violations.filter(each => ['serious', 'critical']"
            ".includes(each.impact)).map(each => each.id + ': ' + each.nodes[0].html))"
        )
        return found

    def texts(self, selector: str) -> list[str]:
        """The text of each element that a selector finds."""
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
        )
        return found

    def screenshot(self, path: Path, *, height: int | None = None) -> bytes:
        """A picture of what the window shows, or of its first lines, as PNG."""
        parts: dict[str, Any] = {}
        if height is not None:
            width = self.run("innerWidth")
            parts["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", **parts)
        path.write_bytes(base64.b64decode(found["data"]))
        return path.read_bytes()

    def pdf(self, path: Path) -> bytes:
        """The page as it is printed."""
        found = self.call("Page.printToPDF", printBackground=True)
        path.write_bytes(base64.b64decode(found["data"]))
        return path.read_bytes()

    # --- the protocol: JSON documents with a zero byte behind each ---

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            left = until - time.monotonic()
            assert left > 0 and self.process.poll() is None, "the browser does not answer"
            if select.select([self._from], [], [], left)[0]:
                self._buffer += os.read(self._from, 1 << 20)
        raw, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(raw)
        return answer


@contextmanager
def browser() -> Iterator[Page]:
    """Start a browser with a profile of its own; end it and remove the profile."""
    program = find()
    profile = tempfile.mkdtemp(prefix="kgtool-browser-")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    def place() -> None:
        # The browser reads commands from file descriptor 3 and answers on 4.
        read, write = os.dup(to_read), os.dup(from_write)
        os.dup2(read, 3)
        os.dup2(write, 4)

    process = subprocess.Popen(
        [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=place,
        close_fds=False,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(process, to_write, from_read)
    finally:
        os.close(to_write)
        os.close(from_read)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait(60)
        shutil.rmtree(profile, ignore_errors=True)
