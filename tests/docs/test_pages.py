"""Pages that follow from the source are up to date, and every page can be found."""

import re
import sys
from pathlib import Path

import pytest
import yaml

import bequest
from bequest.cli.docs import find

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generated_pages  # noqa: E402
import site_hooks  # noqa: E402

PAGES = generated_pages.pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_follows_from_the_source_is_up_to_date(path):
    assert path.read_text("utf-8") == PAGES[path], "run make pages"


def test_every_public_name_has_a_heading_of_its_own():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    names = generated_pages.public_names()
    assert set(names) >= {"bequest", "bequest.wills", "bequest.engines", "bequest.errors"}
    assert {name for name in bequest.__all__ if not name.startswith("_")} == set(
        names["bequest"]
    ) | {room.partition(".")[2] for room in names if "." in room}
    for room, listed in names.items():
        section = text.split(f"\n## {room}\n")[1].split("\n## ")[0]
        missing = [name for name in listed if f"\n### {name}\n" not in section]
        assert not missing or room == "bequest.errors", (room, missing)


def test_every_error_is_told_with_what_to_do():
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    for name in generated_pages.public_names()["bequest.errors"]:
        assert f"\n## {name}\n" in text
    assert text.count("| it says | what to do |") > 25


def test_the_menu_names_pages_that_exist_and_the_others_are_added():
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=yaml.BaseLoader)  # noqa: S506
    named = set(re.findall(r"([\w-]+)\.md", str(config["nav"])))
    assert named <= set(find())
    config["docs_dir"] = str(ROOT / "docs")
    found = set(re.findall(r"([\w-]+)\.md", str(site_hooks.on_config(config)["nav"])))
    assert found == set(find())


def test_diagrams_are_drawn_with_every_word_in_them():
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    fences = site_hooks._FENCE.findall(page)
    assert [kind for kind, _ in fences].count("sequenceDiagram") == 3
    for kind, text in fences:
        drawn = site_hooks._drawn(kind, text)
        said = re.findall(r": (.+)$", text, re.MULTILINE)
        assert len(said) > 5
        for words in said:
            assert words.replace(">", "&gt;") in drawn, words


def test_anchors_within_pages_exist():
    for path in find().values():
        text = path.read_text("utf-8")
        for target, anchor in re.findall(r"\]\(([\w-]*)(?:\.md)?#([\w-]+)\)", text):
            other = find()[target] if target else path
            headings = re.findall(r"^#+ (.+)$", other.read_text("utf-8"), re.MULTILINE)
            slugs = {
                re.sub(r"[^\w\- ]", "", one).strip().lower().replace(" ", "-") for one in headings
            }
            assert anchor in slugs, (path.name, target, anchor)
