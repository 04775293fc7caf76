"""Files from elsewhere: how much they unpack to is known before they are unpacked."""

import io
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bequest import archives, memory
from bequest.data import read_table, reading
from bequest.errors import InvalidData


@pytest.fixture
def tiny(monkeypatch):
    """A machine with a megabyte of memory."""
    monkeypatch.setattr(memory, "here", lambda: 1e6)


@pytest.fixture
def sealed(monkeypatch):
    """Nothing may be unpacked."""

    def unpacked(*_, **__):
        raise AssertionError("it was unpacked")

    monkeypatch.setattr(np, "load", unpacked)
    monkeypatch.setattr(pq, "read_table", unpacked)


def refused(path):
    with pytest.raises(InvalidData) as caught:
        read_table(path)
    assert str(path) in caught.value.what
    return caught.value


def forged(path, header, *, body=b""):
    """Write an archive with one array whose header says what it likes."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", buffer.getvalue() + body)
    return path


def test_an_archive_that_unpacks_to_a_thousand_times_its_size(tmp_path, monkeypatch, sealed):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((1000, 100)), y=np.arange(1000))
    monkeypatch.setattr(archives, "_LARGE", 100_000)
    error = refused(path)
    assert "unpacks to 80" in error.what
    assert "times as much" in error.what
    assert "numpy.savez" in error.remedy


def test_the_same_archive_uncompressed_is_a_table(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros((1000, 100)), y=np.arange(1000))
    monkeypatch.setattr(archives, "_LARGE", 100_000)
    assert read_table(path).columns["X"].shape == (1000, 100)


def test_what_shrinks_a_lot_but_is_small_is_a_table(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((1000, 100)))
    assert read_table(path).columns["X"].shape == (1000, 100)


@pytest.mark.parametrize(
    "kind", [np.float64, np.int8, "S40", "U10"], ids=["numbers", "small numbers", "bytes", "text"]
)
def test_an_archive_that_is_larger_than_the_memory(tmp_path, tiny, sealed, kind):
    """Small numbers become large ones, and bytes text: what counts is what they become."""
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros(40_000, dtype=kind))
    assert "of memory, and there are 1 MB here" in refused(path).what


@pytest.mark.parametrize("kind", ["<f8", "|i1", "<U1", "<U0", "|S0"])
def test_a_header_that_says_more_than_there_is(tmp_path, sealed, kind):
    header = {"descr": kind, "fortran_order": False, "shape": (10**9, 10**6)}
    assert "unpacks to 8" in refused(forged(tmp_path / "a.npz", header, body=b"x" * 80)).what


def test_a_header_that_says_a_little_more_than_there_is(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (11,)}
    assert "as NPZ" in refused(forged(tmp_path / "a.npz", header, body=b"x" * 80)).what


def test_a_parquet_file_of_many_equal_rows(tmp_path, monkeypatch, sealed):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.zeros(100_000, dtype=np.int8)}), path)
    monkeypatch.setattr(archives, "_LARGE", 100_000)
    error = refused(path)
    assert "unpacks to 800 kB" in error.what
    assert "use_dictionary=False" in error.remedy


def test_a_parquet_file_that_is_larger_than_the_memory(tmp_path, tiny, sealed):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(0).standard_normal(30_000)}), path)
    assert "1.44 MB of memory" in refused(path).what


def test_a_long_text_that_a_parquet_file_holds_once_and_shows_often(tmp_path, tiny):
    """It is kept once, too; written out it would not fit."""
    path = tmp_path / "a.parquet"
    rows = pa.array(np.zeros(100, dtype=np.int32))
    texts = pa.DictionaryArray.from_arrays(rows, pa.array(["z" * 10_000]))
    pq.write_table(pa.table({"t": texts}), path)
    table = read_table(path)
    assert table.columns["t"].counts() == {"z" * 10_000: 100}
    with pytest.raises(InvalidData, match="in which cells get as much room as the longest"):
        table.names("t")


def test_texts_of_a_parquet_file_of_which_one_is_long(tmp_path, tiny):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [*map(str, range(50)), "z" * 10_000]}), path)
    assert 'column "t", in which every text' in refused(path).what


def test_a_text_that_makes_every_cell_of_a_csv_file_long(tmp_path, tiny):
    path = tmp_path / "a.csv"
    path.write_text("x,t\n" + "".join(f"1,a{k}\n" for k in range(50)) + f"1,{'z' * 10_000}\n")
    error = refused(path)
    assert 'column "t", in which every text gets as much room as the longest' in error.what
    assert "shorten" in error.remedy


def test_a_csv_file_that_is_larger_than_the_memory(tmp_path, tiny, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 75_000)
    monkeypatch.setattr(reading.csv, "reader", lambda *_: pytest.fail("it was read"))
    assert "1.2 MB of memory" in refused(path).what


@pytest.mark.parametrize("megabytes", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_a_csv_file_takes_at_most_four_times_its_size_of_memory(megabytes):
    benchmark = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "csv_memory.py"))
    found = benchmark["measure"](megabytes)
    print(found)
    assert found["read, without Python's own"] <= 4
    assert found["described, without Python's own"] <= 4
    if megabytes > 100:  # beside a small file the interpreter is large
        assert found["described"] <= 4


def test_cells_that_are_missing_among_numbers_are_nan_and_texts_keep_their_order(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(reading, "_ROWS", 2)  # in pieces of two rows
    path = tmp_path / "a.csv"
    path.write_text("x,t,none,y\n1,a,,\n ,bb,,2\n3,,, inf\n4,a,,nan\n5,ccc,,7\n")
    table = read_table(path)
    np.testing.assert_array_equal(table.columns["x"], [1, np.nan, 3, 4, 5])
    np.testing.assert_array_equal(table.columns["y"], [np.nan, 2, np.inf, np.nan, 7])
    assert table.columns["t"].tolist() == ["a", "bb", "", "a", "ccc"]
    assert table.columns["none"].tolist() == [""] * 5
    assert not any(table.columns[name].flags.writeable for name in "xy")


def test_a_csv_file_of_very_many_columns(tmp_path):
    """Whether a name occurs twice is not looked up by comparing it with all others."""
    path = tmp_path / "a.csv"
    names = [f"c{number}" for number in range(50_000)]
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert len(read_table(path).columns) == 50_000


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_every_byte_flipped_in_turn_is_harmless_or_told_in_words(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez_compressed(path, X=np.arange(6.0).reshape(3, 2), t=np.array(["a", "bc", "d"]))
    elif suffix == "parquet":
        pq.write_table(pa.table({"x": [1.5, 2.5], "t": ["a", None]}), path)
    else:
        path.write_text('x,"t"\n1,a\n2,"b, c"\n')
    whole = path.read_bytes()
    read = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(bytes(damaged))
        try:
            read += read_table(path).rows > 0
        except InvalidData:
            continue
    assert 0 < read < len(whole)


def test_how_much_memory_there_is(tmp_path, monkeypatch):
    assert 1e8 < memory.here() < 1e15
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path / "memory.max")
    outside = memory.here()
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.here() == outside
    (tmp_path / "memory.max").write_text("12345678\n")
    assert memory.here() == 12345678


def test_a_pipe_is_no_table(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InvalidData, match=r"pipe\.csv cannot be read: it is not an ordinary file"):
        read_table(tmp_path / "pipe.csv")


def test_a_bit_that_flips_in_the_directory_loses_no_column(tmp_path):
    """A comment that is said to be longer swallows the entries after it, without a word."""
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(3) for name in "xyz"}
    place = tmp_path / "table.npz"
    np.savez(place, **columns)
    content = place.read_bytes()
    start, refused = content.index(b"PK\x01\x02"), 0
    for bit in range(8 * start, 8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        place.write_bytes(flipped)
        try:
            table = read_table(place)
        except InvalidData:
            refused += 1
            continue
        assert table.columns.keys() == columns.keys()
        for name, column in columns.items():
            np.testing.assert_array_equal(table.columns[name], column)
    assert refused > 500


def test_two_arrays_of_one_name_are_refused(tmp_path):
    array = io.BytesIO()
    np.save(array, np.arange(3.0))
    with zipfile.ZipFile(tmp_path / "table.npz", "w") as archive:
        for name in ("x.npy", "x", "y.npy"):
            archive.writestr(name, array.getvalue())
    with pytest.raises(InvalidData, match='two arrays called "x"'):
        read_table(tmp_path / "table.npz")


def test_a_csv_file_takes_at_most_four_times_its_size(tmp_path):
    path = tmp_path / "a.csv"
    row = "site,yes," + ",".join(f"{0.1234567 + k:.6f}" for k in range(40)) + "\n"
    head = "site,ill," + ",".join(f"x{k}" for k in range(40)) + "\n"
    path.write_text(head + row * 30_000)
    code = (
        "import resource, sys, bequest as bq\n"
        "bq.data.read_table\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "table = bq.data.read_table(sys.argv[1])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) * 1024 < 4 * path.stat().st_size
