import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import browser
import pages


@pytest.fixture(scope="session")
def opened():
    """One browser for all tests; what it was asked and complained about is forgotten in between."""
    with browser.chromium() as driver:
        yield driver


@pytest.fixture
def driver(opened):
    opened.get("about:blank")
    browser.complaints(opened)
    browser.requests(opened)
    yield opened
    assert browser.complaints(opened) == []
    assert browser.requests(opened) == []


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    return pages.write(tmp_path_factory.mktemp("pair"), "pair", *pages.pair())


@pytest.fixture(scope="session")
def eventful(tmp_path_factory):
    return pages.write(tmp_path_factory.mktemp("eventful"), "eventful", pages.eventful()[0])
