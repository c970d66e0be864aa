"""Chromium for the tests of pages: scripts in a page, keys, axe-core's rules, and pictures held against others.

axe-core comes with PyPI's axe-playwright-python, of which its axe.min.js alone is used; ./setup puts it into build/venv.
The widths of some text, in fonts.json, say whether the fonts are those of the kept pictures: with others text wraps elsewhere."""
import base64, fcntl, glob, json, os, select, shutil, subprocess, sys, time
from pathlib import Path

root = Path(__file__).resolve().parents[2]
program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
axe = next(iter(glob.glob(str(root / "build/venv/lib/python*/site-packages/axe_playwright_python/axe.min.js"))), None)

fonts = root / "tests/browser/fonts.json"

SHRINK = """const image = async (data) => { const i = new Image(); i.src = "data:image/png;base64," + data; await i.decode(); return i; };
const shrink = (i, w, h) => { const c = document.createElement("canvas"); c.width = w; c.height = h;
	const x = c.getContext("2d"); x.imageSmoothingQuality = "high"; x.drawImage(i, 0, 0, w, h); return c; };
"""


class Browser:
    """Chromium driven through its debugging pipe: JSON messages that end in NUL."""

    def __init__(self, home, width=1600, height=900, flags=()):
        inward, self.write = os.pipe()
        self.read, outward = os.pipe()
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (inward, outward)]      # the child makes 3 and 4 of them
        start = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, *map(str, moved), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={home}", *flags, "about:blank"], pass_fds=moved, stderr=subprocess.DEVNULL)
        self.n, self.rest, self.session = 0, b"", None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def send(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = select.select([self.read], [], [], 60)[0] and os.read(self.read, 1 << 16)
                if not part:
                    raise RuntimeError("the browser ended, or says nothing")
                self.rest += part
            one, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def run(self, script):
        r = self.send("Runtime.evaluate", expression=f"(async () => {{ {script} }})()", awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"].get("exception", {}).get("description") or str(r["exceptionDetails"]))
        return r["result"].get("value")

    def until(self, condition, seconds=30):
        end = time.time() + seconds
        while time.time() < end:
            if self.run(f"try {{ return Boolean({condition}) }} catch (e) {{ return false }}"):      # the page may still be on its way
                return True
            time.sleep(0.1)
        return False

    def open(self, address, condition="document.readyState === 'complete'"):
        self.send("Page.navigate", url=address)
        return self.until(condition, 60)

    def dark(self, is_dark):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def key(self, key, code=0, modifiers=0):
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                      **(text if kind == "keyDown" else {}))

    def violations(self, part="html"):
        """What axe-core finds in a part of the page, by rule and first elements; nothing where it is not installed."""
        if not axe:
            return []
        self.send("Runtime.evaluate", expression=Path(axe).read_text() + "; 0")
        return self.run(f"const r = await axe.run({part!r}, {{ iframes: false }});"
                        "return r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' ')}`)")

    def picture(self):
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def quarter(self, picture):
        """The picture with a quarter of its width and height: small enough to be kept."""
        return base64.b64decode(self.run(SHRINK + f"const i = await image('{base64.b64encode(picture).decode()}');"
                                "return shrink(i, i.width / 4, i.height / 4).toDataURL('image/png').split(',')[1]"))

    def differs(self, picture, other):
        """The share of two pictures, cut in cells of 16 by 16 pixels of a screen 1600 wide, whose mean colours are apart."""
        a, b = (base64.b64encode(p).decode() for p in (picture, other))
        return self.run(SHRINK + f"const a = await image('{a}'), b = await image('{b}'), w = 100, h = Math.round(w * a.height / a.width);"
                        "if (Math.abs(h - w * b.height / b.width) > 1) return 1;"
                        "const [p, q] = [a, b].map((i) => shrink(shrink(i, 400, 4 * h), w, h).getContext('2d').getImageData(0, 0, w, h).data);"
                        "let n = 0; for (let i = 0; i < p.length; i += 4) n += Math.max(...[0, 1, 2].map((c) => Math.abs(p[i + c] - q[i + c]))) > 20;"
                        "return n / (w * h)")

    def widths(self):
        """Of the fonts of the pages, by name; a page needs to be open."""
        return self.run("const x = document.createElement('canvas').getContext('2d'), names = ['system-ui', 'ui-monospace, Menlo, Consolas, monospace'];"
                        "return Object.fromEntries(names.map((n) => { x.font = `100px ${n}`; return [n, Math.round(x.measureText('Which lane holds [17, 4]? %acc').width)]; }))")

    def compare(self, shown, kept, share, bless):
        """What is wrong with a picture, held against the one kept; None: nothing."""
        if bless:
            kept.parent.mkdir(exist_ok=True)
            kept.write_bytes(shown)
            fonts.write_text(json.dumps(self.widths(), indent="\t") + "\n")
        if self.widths() != json.loads(fonts.read_text()):
            print(f"skipped the comparison with {kept.name}: this browser's fonts are others than those of the kept pictures", flush=True)
            return None
        part = self.differs(shown, kept.read_bytes()) if kept.exists() else 1
        print(f"# {kept.name}: {part:.1%} of the picture differ", flush=True)
        return None if part <= share else f"{kept.relative_to(root)}: {part:.1%} of the picture differ; if it should, --bless"

    def end(self):
        self.process.kill()
        self.process.wait()
