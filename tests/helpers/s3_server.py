"""The part of S3 that pyarrow uses, over HTTP and in memory: whole and multipart puts, ranges, lists, deletions.

Run as a program it prints its port and serves until its input ends. It writes a line for every request, with the
range that was asked for. Objects below ``broken/`` cannot be put: the connection is cut in the middle. Puts below
``slow/`` take a second to begin and to end.
"""

import hashlib
import io
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Lock, Thread
from typing import IO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

BUCKET = "bucket"
MOST_LISTED = 3
"""Names in an answer to a list, so that tests meet lists that go on."""

SLOW = 1.0
"""Seconds."""

OBJECTS: dict[str, bytes] = {}
UPLOADS: dict[str, dict[int, bytes]] = {}
NUMBERS = count()
LOCK = Lock()


def etag_of(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


def unchunked(file: IO[bytes]) -> bytes:
    """Return the content of chunks, each after a line with its size."""
    parts = []
    while size := int(file.readline().split(b";")[0], 16):
        parts.append(file.read(size))
        file.readline()
    return b"".join(parts)


class Handler(BaseHTTPRequestHandler):
    """Answers requests for one bucket."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # answers are written in two steps, and the second one should not wait
    denies = False

    def log_message(self, format: str, *args: object) -> None:
        print(
            f'"{self.command} {self.path}" {self.headers.get("Range", "")} {args[1]}',
            file=sys.stderr,
            flush=True,
        )

    def answer(self) -> None:
        """Find out what is asked for, and do it."""
        where = urlsplit(self.path)
        bucket, _, key = unquote(where.path.lstrip("/")).partition("/")
        query = {name: values[0] for name, values in parse_qs(where.query, keep_blank_values=True).items()}
        body = self.read_body()
        if self.denies:
            return self.refuse(HTTPStatus.FORBIDDEN, "AccessDenied")
        if bucket != BUCKET:
            return self.refuse(HTTPStatus.NOT_FOUND, "NoSuchBucket")
        if key.startswith("broken/") and self.command == "PUT":
            self.close_connection = True
            return self.connection.close()
        if key.startswith("slow/") and self.command == "POST":
            time.sleep(SLOW)
        with LOCK:
            of_bucket: dict[str, Callable[[dict[str, str], bytes], None]]
            of_bucket = {"HEAD": self.say_nothing, "GET": self.list, "POST": self.delete_many}
            if not key:
                return of_bucket[self.command](query, body)
            return getattr(self, f"on_{self.command.lower()}")(key, query, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names of the base class

    def read_body(self) -> bytes:
        """Return the body of the request; a chunked one may hold content that is in chunks with checksums itself."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = unchunked(self.rfile)
        while self.rfile.readline().strip():
            pass
        is_twice = self.headers.get("Content-Encoding") == "aws-chunked"
        return unchunked(io.BytesIO(body)) if is_twice else body

    def reply(self, status: int, body: bytes = b"", size: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)

    def say(self, kind: str, content: str) -> None:
        self.reply(200, f"<{kind}>{content}</{kind}>".encode(), Content_Type="application/xml")

    def refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self.reply(status, b"" if self.command == "HEAD" else body, Content_Type="application/xml")

    def say_nothing(self, query: dict[str, str], body: bytes) -> None:
        self.reply(200)

    def list(self, query: dict[str, str], body: bytes) -> None:
        """List the objects below a prefix, or what lies directly below it."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        found = {}
        for key in sorted(OBJECTS):
            if key.startswith(prefix):
                end = key.find(delimiter, len(prefix)) if delimiter else -1
                found.setdefault(key if end < 0 else key[: end + 1], end >= 0)
        after = query.get("continuation-token", "")
        left = [one for one in found if one > after]
        most = min(int(query.get("max-keys", MOST_LISTED)), MOST_LISTED)
        shown, goes_on = left[:most], len(left) > most
        parts = [
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>"
            if found[one]
            else f"<Contents><Key>{escape(one)}</Key><Size>{len(OBJECTS[one])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for one in shown
        ]
        token = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if goes_on else ""
        self.say(
            "ListBucketResult",
            f"<IsTruncated>{str(goes_on).lower()}</IsTruncated><KeyCount>{len(shown)}</KeyCount>{token}{''.join(parts)}",
        )

    def delete_many(self, query: dict[str, str], body: bytes) -> None:
        for one in ElementTree.fromstring(body).iter():
            if one.tag.endswith("Key"):
                OBJECTS.pop(one.text or "", None)
        self.say("DeleteResult", "")

    def on_head(self, key: str, query: dict[str, str], body: bytes) -> None:
        if key not in OBJECTS:
            return self.refuse(404, "NoSuchKey")
        content = OBJECTS[key]
        return self.reply(200, size=len(content), **self.about(content))

    def on_get(self, key: str, query: dict[str, str], body: bytes) -> None:
        if key not in OBJECTS:
            return self.refuse(404, "NoSuchKey")
        content, wanted = OBJECTS[key], self.headers.get("Range")
        if wanted is None:
            return self.reply(200, content, **self.about(content))
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last or len(content)) + 1, len(content))
        if start >= len(content):
            return self.refuse(416, "InvalidRange")
        shown = f"bytes {start}-{stop - 1}/{len(content)}"
        return self.reply(206, content[start:stop], Content_Range=shown, **self.about(content))

    @staticmethod
    def about(content: bytes) -> dict[str, str]:
        return {"ETag": etag_of(content), "Last_Modified": formatdate(0, usegmt=True)}

    def on_put(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            UPLOADS[query["uploadId"]][int(query["partNumber"])] = body
        else:
            OBJECTS[key] = body
        self.reply(200, ETag=etag_of(body))

    def on_post(self, key: str, query: dict[str, str], body: bytes) -> None:
        """Begin an upload in parts, or end it: only then there is an object."""
        if "uploads" in query:
            name = f"upload-{next(NUMBERS)}"
            UPLOADS[name] = {}
            return self.say("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")
        parts = UPLOADS.pop(query["uploadId"])
        OBJECTS[key] = b"".join(parts[number] for number in sorted(parts))
        return self.say("CompleteMultipartUploadResult", f"<ETag>{escape(etag_of(OBJECTS[key]))}</ETag>")

    def on_delete(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            UPLOADS.pop(query["uploadId"], None)
        else:
            OBJECTS.pop(key, None)
        self.reply(204)


def main() -> None:
    """Serve until the input ends."""
    Handler.denies = "--denies" in sys.argv
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
