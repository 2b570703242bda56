"""Places in object stores (S3, Google Cloud Storage, Azure); no other module knows how they are reached.

An object is put whole: it has its new content or is as before. There are no folders, no renaming and no locks.
Options are the query of an address, as ``pyarrow.fs.FileSystem.from_uri`` takes them; credentials come from the
environment or the files of the provider, never from an address.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from gdpnet.errors import ConfigError, WorkError, reason_of

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")

_CONTAINERS = ("abfs", "abfss")
"""Schemes whose addresses have the container before the ``@``."""

_ANONYMOUS = ("gs", "gcs")
"""Schemes whose addresses may say that there are no credentials."""

_SECRET = re.compile(r"secret|password|token|key", re.IGNORECASE)
_PIECE = 1 << 22


class ObjectError(WorkError, OSError):
    """An object store did not do what was asked."""


class NoObjectError(ObjectError, FileNotFoundError):
    """There is no object of this name."""


def is_address(text: object) -> bool:
    """Return whether a text is the address of a place in an object store."""
    return isinstance(text, str) and text.partition("://")[0] in SCHEMES and "://" in text


@dataclass(frozen=True)
class ObjectPath:
    """The address of an object or of all objects below it; its methods are those of ``pathlib.Path``."""

    root: str
    """Scheme and bucket, such as ``s3://bucket``."""
    parts: tuple[str, ...]
    query: str = ""

    @classmethod
    def of(cls, text: str) -> ObjectPath:
        """Return the place of an address; refuse credentials, which would be printed and recorded."""
        found = urlsplit(text)
        user, has_user, _ = found.netloc.rpartition("@")
        allowed = found.scheme in _CONTAINERS or (user == "anonymous" and found.scheme in _ANONYMOUS)
        named = [name for name, _ in parse_qsl(found.query, keep_blank_values=True) if _SECRET.search(name)]
        if ":" in user or (has_user and not allowed) or named:
            raise ConfigError(
                f"the address of a place in {found.scheme} must hold no credentials: give them in the environment or "
                "in the files of the provider"
            )
        parts = tuple(part for part in found.path.split("/") if part)
        if not found.netloc or found.fragment or any(part in (".", "..") for part in parts):
            raise ConfigError(f"an address must be {found.scheme}://bucket/name, found another one")
        return cls(f"{found.scheme}://{found.netloc}", parts, found.query)

    def __str__(self) -> str:
        return "/".join([self.root, *self.parts])

    @property
    def address(self) -> str:
        """Return the whole address, with its options."""
        return f"{self}?{self.query}" if self.query else str(self)

    @property
    def name(self) -> str:
        """Return the last part."""
        return self.parts[-1] if self.parts else ""

    @property
    def suffix(self) -> str:
        """Return the ending of the name, with its dot."""
        return Path(self.name).suffix

    @property
    def parent(self) -> ObjectPath:
        """Return the place around this one."""
        return replace(self, parts=self.parts[:-1])

    def __truediv__(self, name: str) -> ObjectPath:
        return replace(self, parts=(*self.parts, *(part for part in str(name).split("/") if part)))

    @property
    def _system(self) -> tuple[Any, str]:
        """Return the file system and the name that it has for this place."""
        with _saying(f"cannot reach {self.root}"):
            system, bucket = _system_of(self.root, self.query)
        return system, "/".join([bucket, *self.parts])

    def is_file(self) -> bool:
        """Return whether there is an object of this name."""
        return _info_of(self).type.name == "File"

    def is_dir(self) -> bool:
        """Return whether there are objects below."""
        return _info_of(self).type.name == "Directory"

    def exists(self) -> bool:
        """Return whether there is an object of this name, or are any below."""
        return _info_of(self).type.name != "NotFound"

    def size(self) -> int | None:
        """Return the size of the object in bytes; None if there is none."""
        found = _info_of(self)
        return int(found.size) if found.type.name == "File" else None

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield what lies directly below, ascending; none if there is nothing."""
        from pyarrow.fs import FileSelector

        system, name = self._system
        with _saying(f"cannot list {self}"):
            found = system.get_file_info(FileSelector(name, allow_not_found=True))
        yield from (self / each for each in sorted(one.base_name for one in found))

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield what lies directly below and fits a pattern."""
        return (one for one in self.iterdir() if fnmatchcase(one.name, pattern))

    @contextmanager
    def open(self, mode: Literal["rb"] = "rb") -> Iterator[IO[bytes]]:
        """Open the object for reading in order."""
        assert mode == "rb", "objects are put whole, by `put`"
        system, name = self._system
        with _saying(f"cannot read {self}"), system.open_input_stream(name) as stream:
            yield stream

    def read_bytes(self) -> bytes:
        """Return the content of the object."""
        with self.open() as stream:
            return stream.read()

    def put(self, path: Path) -> None:
        """Write the object with the content of a file, whole or not at all."""
        with _saying(f"cannot write {self}"), path.open("rb") as file:
            _copy(file, *self._system)

    def put_bytes(self, content: bytes) -> None:
        """Write a small object."""
        with _saying(f"cannot write {self}"):
            _copy(io.BytesIO(content), *self._system)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        system, name = self._system
        try:
            with _saying(f"cannot delete {self}"):
                system.delete_file(name)
        except NoObjectError:
            if not missing_ok:
                raise

    def remove_all(self) -> None:
        """Delete all objects below; another process may delete them too."""
        if not self.is_dir():
            return
        system, name = self._system
        with suppress(NoObjectError), _saying(f"cannot delete {self}"):
            system.delete_dir(name)


def _info_of(place: ObjectPath) -> Any:
    system, name = place._system
    with _saying(f"cannot read {place}"):
        return system.get_file_info(name)


def _copy(file: io.BufferedIOBase, system: Any, name: str) -> None:
    """Write an object in a thread, which no signal interrupts: pyarrow ends a put as if it were complete."""

    def copy() -> None:
        is_whole = False
        try:
            with system.open_output_stream(name) as stream:
                while piece := file.read(_PIECE):
                    stream.write(piece)
                is_whole = True
        finally:
            if not is_whole:
                with suppress(OSError):
                    system.delete_file(name)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy).result()


class ObjectReader:
    """An object whose ranges are read; one that was put anew meanwhile is refused."""

    def __init__(self, place: ObjectPath) -> None:
        self.place = place
        self._file = self._opened()
        self.size, self.version = int(self._file.size()), self._version(self._file)

    def _opened(self) -> Any:
        system, name = self.place._system
        with _saying(f"cannot read {self.place}"):
            return system.open_input_file(name)

    @staticmethod
    def _version(file: Any) -> bytes:
        """Return what changes whenever the object is put with other content."""
        about = file.metadata() or {}
        return next((about[name] for name in ("ETag", "etag", "Last-Modified") if name in about), b"")

    def read(self, start: int, size: int) -> bytes:
        """Return a range of bytes; threads may read at the same time."""
        with _saying(f"cannot read {self.place}, it may have changed"):
            found: bytes = self._file.read_at(size, start)
        if len(found) != size:
            raise ObjectError(f"{self.place} became shorter while it was read")
        return found

    def check(self) -> None:
        """Refuse an object that was put anew with other content, or is gone, since this reader was made."""
        now = self._opened()
        if (int(now.size()), self._version(now)) != (self.size, self.version):
            raise ObjectError(f"{self.place} was changed while it was read; run the command again")


@lru_cache
def _system_of(root: str, query: str) -> tuple[Any, str]:
    """Return a file system and the name of a bucket; there is one per address, whose connections are shared."""
    from pyarrow.fs import FileSystem

    scheme = "gs" if root.startswith("gcs:") else None
    address = root if scheme is None else root.replace("gcs", scheme, 1)
    system, bucket = FileSystem.from_uri(f"{address}?{query}" if query else address)
    return system, str(bucket).rstrip("/")


_REASONS = {
    "there is no such bucket": "NO_SUCH_BUCKET|NoSuchBucket|BucketNotFound|ContainerNotFound",
    "access is denied": "ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKeyId|INVALID_CLIENT_TOKEN|"
    "SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|HTTP status 40[13]|AuthenticationFailed|AuthorizationFailure|"
    "PERMISSION_DENIED|UNAUTHENTICATED",
    "its endpoint cannot be reached": "NETWORK_CONNECTION|curlCode|Could not (?:connect|resolve)|UNAVAILABLE|"
    "TransportException",
}
"""Sentences of our own for what the libraries of the providers say."""


@contextmanager
def _saying(what: str) -> Iterator[None]:
    """Turn what pyarrow raises into one sentence without request numbers, addresses of machines and keys."""
    try:
        yield
    except (ObjectError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise NoObjectError(f"{what}: there is no such object") from error
    except (OSError, ValueError, NotImplementedError) as error:
        said = reason_of(error)
        known = (reason for reason, pattern in _REASONS.items() if re.search(pattern, said))
        raise ObjectError(f"{what}: {next(known, said.split(' (Request ID')[0][:160])}") from error
