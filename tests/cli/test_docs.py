"""bequest docs: the documentation, from wherever the command is."""


def test_the_pages_are_listed_with_their_titles(bequest, root):
    result = bequest("docs")
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines() if line[:1].isalpha()][:-1]
    assert sorted(names) == sorted(path.stem for path in (root / "docs").glob("*.md"))
    assert names[:3] == ["index", "does-this-help-me", "tutorial"]
    assert "The run file" in result.stdout


def test_a_page_is_printed_as_it_is(bequest, root):
    page = (root / "docs" / "run-file.md").read_text()
    assert bequest("docs", "run-file").stdout == page
    assert bequest("docs", "run-file.md").stdout == page


def test_a_page_that_is_not_there(bequest):
    result = bequest("docs", "runfile")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "There is no page called 'runfile'." in result.stderr
    assert "Did you mean run-file?" in result.stderr
    assert "../pyproject" not in bequest("docs", "../pyproject").stdout
