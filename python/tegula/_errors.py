"""What the library reports, as exceptions: the text has the source line and the caret."""


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


def make(status, *report):
    return _classes.get(status, Error)(status, *report)
