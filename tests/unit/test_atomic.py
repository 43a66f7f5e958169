"""A file that cannot be written whole is not written, and the error names it."""

import errno
import os

import pytest

from svidag.atomic import replacing


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path):
    path = tmp_path / "run.svidag"
    path.write_bytes(b"earlier")

    def write():
        with replacing(path) as file:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        OSError, match=r"cannot write: No space left on device.*run\.svidag"
    ) as full:
        write()
    assert full.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"earlier"
    assert os.listdir(tmp_path) == ["run.svidag"]


def test_an_error_about_another_file_stays_as_it_is(tmp_path):
    def write():
        with replacing(tmp_path / "run.svidag"):
            (tmp_path / "absent").read_bytes()

    with pytest.raises(FileNotFoundError, match="absent"):
        write()
    assert os.listdir(tmp_path) == []
