import errno
import os
import stat

import pytest

from bequest import files
from bequest.errors import CannotWrite


def test_a_file_appears_as_a_whole(tmp_path):
    target = tmp_path / "file"
    files.check_writable(target)
    assert not target.exists()
    files.write(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    ordinary, target = tmp_path / "ordinary", tmp_path / "target"
    ordinary.touch()
    files.write(target, b"")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    files.write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced():
    files.check_writable(files.Path(os.devnull))
    files.write(files.Path(os.devnull), b"gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


@pytest.mark.parametrize(
    "act", [files.check_writable, lambda path: files.write(path, b"new"), files.Growing]
)
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path, act):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(CannotWrite, match="it is a named pipe"):
            act(tmp_path / name)


@pytest.mark.parametrize("act", [files.check_writable, lambda path: files.write(path, b"new")])
def test_a_folder_that_refuses(tmp_path, monkeypatch, act):
    """Not by its permissions: those do not stop every user who runs the tests."""

    def refuse(*_args, **_options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files.Path, "touch", refuse)
    monkeypatch.setattr(files.Path, "open", refuse)
    with pytest.raises(CannotWrite, match="permission denied"):
        act(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_with_those_above_it(tmp_path):
    files.make_folder(tmp_path / "one" / "two")
    files.make_folder(tmp_path / "one" / "two")
    assert list((tmp_path / "one" / "two").iterdir()) == []
