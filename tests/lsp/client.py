"""A client of the language server, for tests: messages over the pipes of a child process."""
import json
import subprocess


class Client:
    def __init__(self, tegula, encodings=None, **options):
        self.process = subprocess.Popen([tegula, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last_id = 0
        self.reports = {}  # of each URI, as published last
        general = {"positionEncodings": encodings} if encodings else {}
        self.capabilities = self.ask("initialize", {
            "processId": None, "rootUri": None, "capabilities": {"general": general},
            "initializationOptions": options})["capabilities"]
        self.tell("initialized", {})

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self):
        length = None
        while (line := self.process.stdout.readline().strip()) or length is None:
            if not line:
                raise EOFError("the server ended")
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.reports[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def answer(self, method, params):
        """The whole response, with what is published before it kept in `reports`."""
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        while True:
            message = self.read()
            if message.get("id") == self.last_id:
                return message

    def ask(self, method, params):
        message = self.answer(method, params)
        if "error" in message:
            raise RuntimeError(message["error"]["message"])
        return message["result"]

    def open(self, uri, text, version=1):
        self.tell("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": "tegula", "version": version, "text": text}})
        return self.published(uri)

    def change(self, uri, version, *changes):
        self.tell("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)})

    def published(self, uri):
        self.reports.pop(uri, None)
        while uri not in self.reports:
            self.read()
        return self.reports[uri]

    def at(self, method, uri, line, character, **more):
        return self.ask("textDocument/" + method, {
            "textDocument": {"uri": uri}, "position": {"line": line, "character": character}, **more})

    def of(self, method, uri, **more):
        return self.ask("textDocument/" + method, {"textDocument": {"uri": uri}, **more})

    def close(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.stdin.close()
        return self.process.wait(timeout=20)
