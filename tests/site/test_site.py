"""The site as `make docs` has built it: complete, and without anything from elsewhere."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out" / "site"
sys.path.insert(0, str(ROOT / "tools"))

import generated_pages  # noqa: E402

PAGES = sorted(path for path in SITE.glob("*.html") if path.name != "404.html")


class Reader(HTMLParser):
    """What a page has, links to and loads."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif found.get("src"):
            self.loaded.append(found["src"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(found["href"])


READ = {path.name: Reader(path) for path in PAGES}


def test_there_is_a_page_for_every_page():
    assert {path.stem for path in PAGES} == {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_every_public_name_is_on_the_site():
    ids = READ["api.html"].ids
    top = set(generated_pages.public_names()["bequest"])
    for room, names in generated_pages.public_names().items():
        for name in names:
            if room == "bequest.errors":
                assert name.lower() in READ["errors.html"].ids
            elif room == "bequest" or name not in top:
                known = {f"{room}.{name}", name.lower()} & ids
                assert known, f"{room}.{name}"


@pytest.mark.parametrize("page", READ)
def test_nothing_is_loaded_from_elsewhere(page):
    for address in READ[page].loaded:
        assert not re.match(r"(?:https?:)?//", address), address
        assert (SITE / address.partition("?")[0]).is_file(), address


@pytest.mark.parametrize("page", READ)
def test_every_link_leads_somewhere(page):
    for link in READ[page].links:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        name = target.removeprefix("./") or page
        if name in (".", ""):
            name = "index.html"
        assert (SITE / name).exists(), link
        if anchor and name in READ and not anchor.startswith("__"):
            assert anchor in READ[name].ids, link


def test_diagrams_are_drawn_and_examples_are_code():
    assert (SITE / "concepts.html").read_text().count("<svg viewBox") >= 3
    api = (SITE / "api.html").read_text()
    assert "&gt;&gt;&gt; " in api
    assert "mermaid" not in (SITE / "concepts.html").read_text()
