"""Drives a headless Chromium over its debugging pipe: real keys, window sizes, colour schemes, and the tree that a screen reader reads."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

READY = "document.documentElement && document.documentElement.dataset.ready === 'yes'"  # the page's script has run
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The browser of this machine, or None."""
    return next((name for name in NAMES if shutil.which(name)), None)


class Browser:
    """One browser with one tab. Use it in a `with` statement."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        in_read, self.to = os.pipe()
        self.of, out_write = os.pipe()

        # The browser reads descriptor 3 and writes 4; its shell moves these there.
        ends = [in_read, out_write]
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}', "sh", program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in ends:
            os.close(fd)
        self.number, self.bytes, self.console = 0, b"", []
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", session=None, targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.of)
        self.profile.cleanup()

    def message(self, limit):
        end = time.monotonic() + limit
        while b"\0" not in self.bytes:
            if not select.select([self.of], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            read = os.read(self.of, 1 << 20)
            if not read:
                raise EOFError("the browser has ended")
            self.bytes += read
        one, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, session="own", **parameters):
        """Calls a method of the DevTools protocol and returns its result."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session == "own":
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message(60)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message):
        """Keeps what the page complains about."""
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.console.append(what["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.console.append(str(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.console.append(what["entry"]["text"])

    def run(self, script):
        """The value of a JavaScript expression; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, script, what, limit=30):
        end = time.monotonic() + limit
        while not self.run(script):
            if time.monotonic() > end:
                raise TimeoutError(f"in vain for: {what}")
            time.sleep(0.05)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait(READY, "the page's script")

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def key(self, name, text=""):
        """Presses a key: "Tab", "Enter", "Escape", "ArrowRight", or a character with its text."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37}
        parameters = {"key": name, "code": name, "windowsVirtualKeyCode": codes.get(name, 0)}
        text = "\r" if name == "Enter" else text
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def screenshot(self):
        return self.call("Page.captureScreenshot", format="png")["data"]
