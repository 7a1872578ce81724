"""A receiver of webhooks that costs as little as it can, in a process of its own.

The path says how it behaves: /ok/…, /fail/…, /slow/…, /redirect/…. `GET /report` tells how many came to each path, and
how many different ones. It says when it is ready.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

SLOW_SECONDS = 10.0
_HEAD = re.compile(rb"^(\w+) (\S+) ", re.MULTILINE)
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_ID = re.compile(rb"webhook-id: (\S+)", re.IGNORECASE)
ANSWERS = {
    b"ok": b"HTTP/1.1 204 No Content\r\n\r\n",
    b"slow": b"HTTP/1.1 204 No Content\r\n\r\n",
    b"fail": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
    b"redirect": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
}
counts: dict[bytes, int] = {}
ids: dict[bytes, set[bytes]] = {}


class Receiver(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < whole:
                return
            self.buffer = self.buffer[whole:]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        found = _HEAD.search(head)
        assert found
        path = found[2]
        if path == b"/report":
            told = json.dumps({name.decode(): [count, len(ids[name])] for name, count in counts.items()}).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(told), told))
            return
        counts[path] = counts.get(path, 0) + 1
        webhook = _ID.search(head)
        ids.setdefault(path, set()).add(webhook[1] if webhook else b"")
        kind = path.split(b"/")[1]
        if kind == b"slow":
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self.transport.write, ANSWERS[kind])
        else:
            self.transport.write(ANSWERS[kind])


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
