"""What the library reports, as exceptions: the text has the source line and the caret."""

import re


class Error(Exception):
    """`code` ("E1168"), `message`, `file`, `line`, `col` of the first report; str() is every report in full."""

    def __init__(self, status, code=None, message=None, file=None, text=None, line=0, col=0):
        super().__init__((text or message or status).rstrip("\n"))
        self.status, self.code, self.message = status, code, message
        self.file, self.line, self.col = file, line, col

    def _repr_html_(self):
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


class SourceError(Error):
    """The program has errors."""


class LaunchError(Error, ValueError):
    """Arguments do not fit the kernel, or there is no such example."""


class FaultError(Error):
    """A kernel failed: an assert was false, or the GPU stopped it."""


class DeviceError(Error, RuntimeError):
    """The device failed, or cannot run this."""


_classes = {
    "source": SourceError, "launch": LaunchError, "name": LaunchError, "usage": LaunchError, "fault": FaultError,
    "device": DeviceError, "memory": DeviceError, "file": SourceError,
}


def _by_name(line):
    """The command's options are a call's values by name: -D R=... is R=..."""
    line = re.sub(r"'(\w+)' is (\S+) by the command line", r"'\1' is \2 by \1=\2", line)
    return re.sub(r"-D (\w+=)", r"\1", line) if line.startswith("  = help: ") else line


def make(status, code=None, message=None, file=None, text=None, *place):
    message, text = (t and "\n".join(map(_by_name, t.split("\n"))) for t in (message, text))
    return _classes.get(status, Error)(status, code, message, file, text, *place)
