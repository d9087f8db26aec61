"""A client of debugpy, by the Debug Adapter Protocol, as an editor is one."""

import json
import socket
import time


class Debugger:
    """Attached to debugpy at a port. `stops` waits for its events."""

    def __init__(self, port, seconds):
        end = time.monotonic() + seconds
        while True:
            try:
                self.sock = socket.create_connection(("127.0.0.1", port), seconds)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        self.file = self.sock.makefile("rb")
        self.number = 0
        self.events = []

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, command, **arguments):
        self.number += 1
        request = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(request).encode()
        self.sock.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return self.number

    def read(self):
        """The next message."""
        length = 0
        while line := self.file.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if not length:
            raise EOFError("debugpy has closed the connection")
        return json.loads(self.file.read(length))

    def ask(self, command, **arguments):
        body = self.ask_for(command, **arguments)
        assert body is not None, command
        return body

    def ask_for(self, command, **arguments):
        """As ask(); None if debugpy refuses."""
        number = self.send(command, **arguments)
        while True:
            message = self.read()
            if message["type"] == "response" and message["request_seq"] == number:
                return message.get("body", {}) if message["success"] else None
            if message["type"] == "event":
                self.events.append(message)

    def wait(self, *names):
        """The name and body of the next of these events."""
        while True:
            for message in self.events:
                if message["event"] in names:
                    self.events.remove(message)
                    return message["event"], message.get("body")
            message = self.read()
            if message["type"] == "event":
                self.events.append(message)

    def begin(self, path, lines):
        """The program runs, with breakpoints at these lines of the file."""
        self.ask("initialize", adapterID="test", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        self.send("attach", justMyCode=True)
        self.wait("initialized")
        self.ask("setBreakpoints", source={"path": str(path)}, breakpoints=[{"line": line} for line in lines])
        self.ask("configurationDone")

    def stop(self):
        """Where it stops next, as (function, line), and the thread; None if it has ended."""
        name, body = self.wait("stopped", "terminated", "exited")
        if name != "stopped":
            return None
        frame = self.ask("stackTrace", threadId=body["threadId"])["stackFrames"][0]
        return (frame["name"], frame["line"]), body["threadId"]

    def threads(self):
        """Number -> name of all."""
        return {each["id"]: each["name"] for each in self.ask("threads")["threads"]}

    def top_of(self, thread):
        """Where it stands, as (function, line), and its variables; None if it runs."""
        frames = self.ask("stackTrace", threadId=thread)["stackFrames"]
        if not frames:
            return None
        scope = self.ask("scopes", frameId=frames[0]["id"])["scopes"][0]["variablesReference"]
        found = self.ask_for("variables", variablesReference=scope)
        if found is None:  # it was running, and is shown as it was
            return None
        values = {each["name"]: each["value"] for each in found["variables"]}
        return (frames[0]["name"], frames[0]["line"]), values

    def go_on(self, thread):
        self.ask("continue", threadId=thread)
