"""The command ``ragen`` of a folder, whose calls are forked: for shells that call it several times."""

import json
import sys
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

from forked import context, start

PROGRAM = """#!{python} -IS
import json, os, socket, sys
call = {{"words": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ), "pid": os.getpid()}}
with socket.create_connection(("127.0.0.1", {port})) as link:
    link.sendall(json.dumps(call).encode() + b"\\n")
    sys.exit(int(link.makefile().readline()))
"""


class _Call(StreamRequestHandler):
    def handle(self):
        call = json.loads(self.rfile.readline())
        process = start(
            ["-m", "ragen_bench", *call["words"]],
            stdout=f"/proc/{call['pid']}/fd/1", stderr=f"/proc/{call['pid']}/fd/2",
            cwd=call["cwd"], environment=call["environment"],
        )  # fmt: skip
        process.join()
        self.wfile.write(f"{process.exitcode}\n".encode())


@contextmanager
def ragen_in(folder):
    """Write ``ragen`` into a folder; it works while the context lasts."""
    context()
    with ThreadingTCPServer(("127.0.0.1", 0), _Call) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        program = folder / "ragen"
        program.write_text(PROGRAM.format(python=sys.executable, port=server.server_address[1]))
        program.chmod(0o700)
        yield
        server.shutdown()
