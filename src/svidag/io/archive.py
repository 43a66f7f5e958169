"""A container of named arrays and a manifest: a ZIP file of ``.npy`` members and ``manifest.json``.

Members are stored uncompressed, so a file can never ask for more memory than its own size; each
has its SHA-256 in the manifest, and the manifest's own lies beside it. Nothing in it is executed.
Any ZIP program and `numpy.load` can open the members.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from svidag.atomic import replacing

VERSION = 3
KINDS = "biuf"
"""Kinds of array elements that are plain numbers: boolean, signed, unsigned, floating."""
MANIFEST = "manifest.json"
SEAL = "manifest.sha256"
_DAMAGE = (
    zipfile.BadZipFile,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
    struct.error,
)
"""What the readers of ZIP, JSON and arrays raise when bytes are wrong."""


class FileError(ValueError):
    """A file does not hold what it should; the message names it and says why.

    Examples
    --------
    >>> isinstance(FileError("run.svidag is empty"), ValueError)
    True
    """


def write(
    path: Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write the manifest's content and the arrays to one file of a kind, in one step."""
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        sums = {name: _write_array(archive, _member(name), a) for name, a in arrays.items()}
        manifest = {"format": kind, "version": VERSION, **content, "members": sums}
        text = json.dumps(manifest, allow_nan=False, indent=1).encode("ascii")
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        archive.writestr(zipfile.ZipInfo(SEAL), hashlib.sha256(text).hexdigest())


def read(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the manifest and every array, each checked against its sum."""
    with _opened(path, kind) as (archive, manifest):
        arrays = {}
        for name, wanted in manifest["members"].items():
            content = _content(archive, _member(name))
            if hashlib.sha256(content).hexdigest() != wanted:
                raise FileError(f"{path} is damaged: its array {name!r} differs from its checksum")
            arrays[name] = _array(content)
        return manifest, arrays


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest alone."""
    with _opened(path, kind) as (_, manifest):
        return manifest


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn whatever wrong bytes make a reader raise into a `FileError` that names the file.

    Examples
    --------
    >>> with explaining(Path("run.svidag")):
    ...     {}["names"]
    Traceback (most recent call last):
        ...
    svidag.io.archive.FileError: run.svidag is damaged: KeyError: 'names'
    """
    try:
        yield
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{path} is damaged: {type(error).__name__}: {error}") from error


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any]]]:
    """The archive and its manifest."""
    _require_file(path)
    with path.open("rb") as file, explaining(path):
        if not zipfile.is_zipfile(file):
            raise FileError(f"{path} is cut short, or not a {kind!r} file")
        with zipfile.ZipFile(file) as archive:
            _require_bounded(archive, os.fstat(file.fileno()).st_size)
            yield archive, _manifest(path, kind, archive)


def _manifest(path: Path, kind: str, archive: zipfile.ZipFile) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise FileError(f"{path} is a ZIP file, but not a {kind!r} file")
    text = _content(archive, MANIFEST)
    if hashlib.sha256(text).hexdigest().encode() != bytes(_content(archive, SEAL)):
        raise FileError(f"{path} is damaged: its manifest differs from its checksum")
    manifest = json.loads(text)
    _require_version(path, kind, manifest)
    return manifest


def _require_file(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_file():
        what = "directory" if path.is_dir() else "special file"
        raise FileError(f"{path} is a {what}; expected a file that svidag wrote")
    if path.stat().st_size == 0:
        raise FileError(f"{path} is empty")


def _require_bounded(archive: zipfile.ZipFile, size: int) -> None:
    """Every member lies in the file as it is, and together they are no larger than it."""
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ValueError(f"its member {member.filename!r} is compressed")
    if sum(member.file_size for member in archive.infolist()) > size:
        raise ValueError("its members claim to be larger than the file")


def _require_version(path: Path, kind: str, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise FileError(f"{path} is not a {kind!r} file")
    version = manifest.get("version")
    if version != VERSION:
        by = manifest.get("provenance", {}).get("svidag", "unknown")
        raise FileError(
            f"{path} was written by another svidag ({by}): its format version is {version!r}, and "
            f"this svidag reads {VERSION}; load it with the version that wrote it, or fit again"
        )


def _member(name: str) -> str:
    return f"arrays/{name}.npy"


def _write_array(archive: zipfile.ZipFile, member: str, array: np.ndarray) -> str:
    """Write one array; returns the sum of its bytes."""
    with archive.open(zipfile.ZipInfo(member), "w", force_zip64=True) as file:
        summed = _Summed(file)
        little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        np.lib.format.write_array(summed, little, version=(1, 0), allow_pickle=False)
    return summed.sum.hexdigest()


class _Summed:
    """A file that knows the SHA-256 of what was written to it."""

    def __init__(self, file: Any) -> None:
        self.sum = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self._file.write(data)


def _content(archive: zipfile.ZipFile, name: str) -> bytearray:
    member = archive.getinfo(name)
    content = bytearray(member.file_size)
    view = memoryview(content)
    with archive.open(member) as opened:
        file: Any = opened  # it can read into a buffer, which its type does not say
        while view:
            count = file.readinto(view)
            if not count:
                raise EOFError(f"its member {name!r} is cut short")
            view = view[count:]
        file.read(1)  # at the end of a member its CRC is checked
    return content


def _array(content: bytearray) -> np.ndarray:
    """The array in the bytes of a ``.npy`` file, without a copy; numbers only."""
    head = io.BytesIO(bytes(content[:4096]))
    np.lib.format.read_magic(head)
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(head)
    count = math.prod(shape)
    if dtype.kind not in KINDS or dtype.itemsize > 8 or by_columns or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} elements is not of a kind that svidag writes")
    if count * dtype.itemsize != len(content) - head.tell():
        raise ValueError(f"an array of shape {shape} does not fill its member")
    if count == 0:
        return np.empty(shape, dtype)
    array = np.frombuffer(content, dtype, count, head.tell()).reshape(shape)
    array.setflags(write=False)
    return array
