// JSON-RPC over the standard streams of `tegula lsp`: a header with Content-Length, a blank line, as many bytes of JSON.
const { spawn } = require("child_process");

class Connection {
	// notified(method, params) is called for what the server sends by itself, ended(why) once when it is gone.
	constructor(command, args, notified, ended) {
		this.waiting = new Map();
		this.last = 0;
		this.input = Buffer.alloc(0);
		this.notified = notified;
		this.ended = ended;
		this.process = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
		this.process.on("error", (e) => this.end(e.code === "ENOENT" ? `there is no command '${command}'` : e.message));
		this.process.on("exit", (code, signal) => this.end(`it ended with ${signal || code}`));
		this.process.stdin.on("error", () => {});       // "exit" reports its end
		this.process.stdout.on("data", (bytes) => this.take(bytes));
	}

	end(why) {
		if (!this.ended) return;
		const ended = this.ended;
		this.ended = null;
		for (const { reject } of this.waiting.values()) reject(new Error(why));
		this.waiting.clear();
		ended(why);
	}

	send(message) {
		const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
		this.process.stdin.write(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]));
	}

	notify(method, params) {
		if (this.ended) this.send({ method, params });
	}

	request(method, params) {
		if (!this.ended) return Promise.reject(new Error("the server ended"));
		const id = ++this.last;
		return new Promise((resolve, reject) => {
			this.waiting.set(id, { resolve, reject });
			this.send({ id, method, params });
		});
	}

	take(bytes) {
		this.input = Buffer.concat([this.input, bytes]);
		for (;;) {
			const head = this.input.indexOf("\r\n\r\n");
			const length = head < 0 ? null : /content-length: *(\d+)/i.exec(this.input.toString("latin1", 0, head));
			if (!length || this.input.length < head + 4 + Number(length[1])) return;
			const end = head + 4 + Number(length[1]), body = this.input.toString("utf8", head + 4, end);
			this.input = this.input.subarray(end);
			this.received(JSON.parse(body));
		}
	}

	received(message) {
		if (message.method) {
			this.notified(message.method, message.params);
			return;
		}
		const asked = this.waiting.get(message.id);
		this.waiting.delete(message.id);
		if (asked && message.error) asked.reject(new Error(message.error.message));
		else if (asked) asked.resolve(message.result);
	}

	// Asks it to end, and sees to it.
	async stop() {
		const gone = new Promise((resolve) => this.process.once("exit", resolve));
		const alive = this.ended && this.process.exitCode === null;
		this.ended = this.ended && (() => {});
		if (!alive) return;
		const late = setTimeout(() => this.process.kill("SIGKILL"), 2000);
		this.request("shutdown", null).then(() => this.notify("exit", null), () => this.process.kill("SIGKILL"));
		await gone;
		clearTimeout(late);
	}
}

module.exports = { Connection };
