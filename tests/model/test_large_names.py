"""Whole numbers that float64 does not tell apart, as names of silos, classes and categories."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bequest as bq
from bequest.data import Table, as_table, problem_of, read_silos, read_table, select, trained
from bequest.data.describe import describe
from bequest.errors import InvalidData
from bequest.runfile.tables import SortedChunks

BIG = 2**53
CODES = [BIG + 1, BIG, 5, -7, BIG + 1, BIG, 5, -7]
NAMES = {str(code) for code in CODES}


def columns(codes):
    return {"code": codes, "x": np.arange(8.0), "y": [0, 1] * 4}


def from_csv(folder):
    cells = ["+9007199254740993", "9007199254740992", "005", "-7.0", *map(str, CODES[4:])]
    lines = [f"{cell},{x},{x % 2}" for x, cell in enumerate(cells)]
    (folder / "a.csv").write_text("code,x,y\n" + "\n".join(lines) + "\n")
    return read_table(folder / "a.csv")


def from_npz(folder):
    np.savez(folder / "a.npz", **columns(np.array(CODES)))
    return read_table(folder / "a.npz")


def from_parquet(folder):
    pq.write_table(pa.table(columns(CODES)), folder / "a.parquet")
    return read_table(folder / "a.parquet")


KINDS = {
    "csv": from_csv,
    "npz": from_npz,
    "parquet": from_parquet,
    "arrays": lambda _: Table(columns(np.array(CODES))),
    "frame": lambda _: as_table(pd.DataFrame(columns(CODES))),
    "arrow": lambda _: as_table(pa.table(columns(CODES))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_large_whole_numbers_stay_apart_as_names_and_count_as_numbers(tmp_path, kind):
    table = KINDS[kind](tmp_path)
    silos = select(table, label="y", silo="code")
    assert len(bq.partition.by_column(np.asarray(silos.silo))) == 4
    assert {*select(table, label="code", features=["x"]).classes} == NAMES
    agreed = select(table, label="y", categories={"code": "agree"}, standardise=False)
    assert {*agreed.features} == {"x", *(f"code={name}" for name in NAMES)}
    declared = select(
        table, label="y", features=["code"], categories={"code": sorted({*CODES})}, bias=False,
        standardise=False,
    )  # fmt: skip
    assert declared.X.tolist() == [[float(one == c) for c in sorted({*CODES})] for one in CODES]
    assert table.numbers("code")[:, 0].tolist() == [float(code) for code in CODES]
    told = describe(table, label="y", silo="code")
    assert {*told["silos"]} == NAMES
    assert (told["columns"][0]["kind"], told["columns"][0]["distinct"]) == ("number", 4)


def test_a_category_that_a_declared_one_would_have_swallowed_is_refused():
    table = Table(columns(np.array(CODES)))
    with pytest.raises(InvalidData, match='is "9007199254740993", which is no known category'):
        select(table, label="y", categories={"code": [BIG, 5, -7]})


def test_numbers_that_may_have_been_others_are_no_names():
    table = Table(columns(np.array(CODES, dtype=float)))
    words = 'row 1, column "code": is 9007199254740992, and float64 does not tell'
    for options in (
        {"label": "y", "silo": "code"},
        {"label": "code"},
        {"label": "y", "categories": {"code": "agree"}},
        {"label": "y", "categories": {"code": "agree"}, "impute": "mean"},
    ):
        with pytest.raises(InvalidData, match=words):
            select(table, **options)
    assert select(table, label="y").X.shape == (8, 3)  # as a number it is what it is
    (told, _, _) = describe(table, label="y", silo="code")["columns"]
    assert "does not tell them apart" in told["refused"]


def test_files_of_silos_of_which_one_has_large_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("code,x\n7.0,1\n8,2\n")
    (tmp_path / "b.csv").write_text(f"code,x\n{BIG + 1},3\n{BIG},4\n007,5\nnan,6\n")
    table = read_silos({name: tmp_path / f"{name}.csv" for name in "ab"})
    assert table.column("code").tolist() == ["7", "8", str(BIG + 1), str(BIG), "7", ""]


def test_large_numbers_are_sorted_as_numbers():
    table = Table({"at": [10 * BIG, 9, 2 * BIG, 10], "y": [0, 1, 0, 1]})
    samples = select(table, label="y")
    chunks = SortedChunks(kind="sorted_chunks", n=2, by=["at"]).split(samples, table, 0)
    assert [chunk.tolist() for chunk in chunks] == [[1, 3], [0, 2]]


def test_a_model_tells_new_rows_apart_too(tmp_path):
    table = Table({"code": np.tile([BIG, BIG + 1], 8), "y": np.tile(["no", "yes"], 8)})
    samples = select(table, label="y", categories={"code": "agree"})
    silos = [np.arange(8), np.arange(8, 16)]
    problem = problem_of(samples, silos, loss="logistic", l2=0.1)
    run = bq.solve(problem, bq.graphs.complete(2), rounds=200)
    trained(run, samples, loss="logistic").save(tmp_path / "model.json")
    model = bq.load_model(tmp_path / "model.json")
    (tmp_path / "new.csv").write_text(f"code\n{BIG + 1}\n{BIG}\n")
    for rows in (
        tmp_path / "new.csv",
        pd.read_csv(io.StringIO(f"code\n{BIG + 1}\n{BIG}\n")),
        np.array([[BIG + 1], [BIG]]),
    ):
        assert model.predict(rows).tolist() == ["yes", "no"]
