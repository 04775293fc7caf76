"""Columns of text against lists of text."""

import numpy as np
import pytest

from bequest.data import Table, read_silos
from bequest.data import texts as module
from bequest.data.texts import Texts, ranks

CELLS = ["b", "", "a", "b", "ü" * 7, "a", "b", "12", ""]


@pytest.fixture(params=["few", "many", "pieces"])
def column(request, monkeypatch):
    """The same cells, kept as few distinct ones, as very many, and put together of pieces."""
    if request.param == "many":
        monkeypatch.setattr(module, "_MANY", 2)
    if request.param != "few":
        monkeypatch.setattr(module, "_ROWS", 2)
    return Texts.of(CELLS)


def test_a_column_of_text_says_what_a_list_says(column):
    array = np.array(CELLS)
    assert column.tolist() == [*column] == CELLS
    assert np.asarray(column).tolist() == CELLS
    assert (len(column), column.shape) == (9, (9,))
    assert (column == "b").tolist() == (array == "b").tolist()
    assert (column != "b").tolist() == (array != "b").tolist()
    assert (column == array).all()
    assert column.counts() == {cell: CELLS.count(cell) for cell in dict.fromkeys(CELLS)}
    assert sorted(column.present()) == sorted({*CELLS})
    assert column.each(str.isdigit).tolist() == [cell.isdigit() for cell in CELLS]
    assert column.numbers(len).tolist() == [float(len(cell)) for cell in CELLS]
    values, places = np.unique(array, return_inverse=True)
    assert column.ranks().values == tuple(values.tolist())
    assert column.ranks().places.tolist() == places.tolist()
    assert "ü" not in repr(column)


def test_some_rows_know_nothing_of_the_others(column):
    rows = np.array([0, 3, 7])
    some = column[rows]
    assert some.tolist() == ["b", "b", "12"]
    assert some.counts() == {"b": 2, "12": 1}
    assert some.ranks().values == ("12", "b")
    assert some.present() == [*dict.fromkeys(some.tolist())]
    assert column[4] == CELLS[4]
    assert column[1:3].tolist() == CELLS[1:3]
    asked = []
    some.numbers(lambda cell: asked.append(cell) or 0.0)
    assert {*asked} == {"b", "12"}


@pytest.mark.parametrize("count", [1, 256, 257, 65_536, 65_537, 70_000])
def test_as_many_distinct_cells_as_there_are(count):
    cells = [f"c{number % count}" for number in range(count + 3)]
    column = Texts.of(cells)
    assert column.tolist() == cells
    assert len(column.present()) == count


def test_a_cell_takes_a_byte_where_few_are_distinct():
    column = Texts.of(["emergency room", "icu"] * 50_000)
    assert column.nbytes < 101_000


def test_nothing_changes_a_column(column):
    for part in (column._words, column._codes):
        assert not part.flags.writeable
    with pytest.raises(TypeError):
        hash(column)


def test_numbers_have_ranks_too():
    assert ranks(np.array([2.0, 1.0, 2.0])).values == (1.0, 2.0)
    assert ranks(np.array([2.0, 1.0, 2.0])).places.tolist() == [1, 0, 1]


def test_tables_of_silos_hold_no_second_copy_of_their_cells(tmp_path):
    for site in ("oslo", "rome"):
        (tmp_path / f"{site}.csv").write_text("x,t\n1,a\n2,\n")
    table = read_silos({site: tmp_path / f"{site}.csv" for site in ("oslo", "rome")})
    assert table.cells("silo").tolist() == ["oslo"] * 2 + ["rome"] * 2
    assert not any(isinstance(part, Table) for part in table.parts)
    assert table.where(3, "t") == f'{tmp_path / "rome.csv"}, line 3, column "t"'
