"""Files that are whole or not there: written beside their target and moved over it in one step."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends without an error.

    Whoever reads `path` meanwhile, or after a crash at any moment, finds the old file or the new
    one, never a part. Missing parent directories are made; a symbolic link stays and its target
    is replaced.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "new" / "file.txt"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"all of it")
    >>> target.read_bytes()
    b'all of it'
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{path} is a directory; expected the name of a file to write")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(f"cannot write {path}: {target.parent} is a file") from None
    except OSError as error:
        raise _unwritable(path, error) from None
    # Not tempfile: its files are readable by their owner alone, and the mode would stay.
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    try:
        handle = temporary.open("xb")
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with handle as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename not in (None, os.fspath(temporary)):
            raise  # about another file
        raise _unwritable(path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _unwritable(path: str | os.PathLike[str], error: OSError) -> OSError:
    """The same error, with the name of the requested file in place of the temporary one."""
    return OSError(error.errno, f"cannot write: {error.strerror or error}", os.fspath(path))


def _sync_directory(directory: Path) -> None:
    """Write the directory to disk, so that the move survives a power failure."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
