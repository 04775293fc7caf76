"""The page of a run that goes on: what is new reaches it, and only those who may read it."""

import http.client
import json
import re
import socket
from contextlib import closing
from threading import Thread
from urllib.parse import urlsplit

import numpy as np
import pytest
from typer.testing import CliRunner

import bequest as bq
from bequest.cli import app
from bequest.documents import outcome_document
from bequest.engines.news import News
from bequest.errors import InvalidLog
from bequest.solver import prepare
from bequest.view.live import LivePage
from bequest.view.reading import read

EVENTS = [bq.Departure(1, 10), bq.Crash(2, 30), bq.Return(1, 50), bq.Departure(3, 60)]


def planned(**more):
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=4.0, seed=0)
    return prepare(problem, bq.graphs.ring(6), departures=EVENTS, rounds=90, **more)


@pytest.mark.parametrize("engine", [bq.engines.Vector, bq.engines.Loop])
def test_what_is_told_on_the_way_is_what_is_reported_in_the_end(engine):
    plan, lines = planned(), []
    outcome = engine(watch=lines.append).run(plan)
    document = outcome_document(outcome, plan.scene, most=1000)
    assert list(lines[0]) == ["begun"]
    assert lines[0]["begun"]["network"] == document["network"]
    assert [line["departure"] for line in lines if "departure" in line] == document["departures"]
    assert [line["change"] for line in lines if "change" in line] == document["changes"]
    readings = [line["reading"] for line in lines if "reading" in line]
    assert [one["round"] for one in readings] == document["curves"]["rounds"]
    for name in ("error", "gradient_norm", "disagreement", "invariant_gap"):
        assert [one[name] for one in readings] == document["curves"][name]
    assert lines[-1] == {"ended": str(outcome.status)}
    # Nothing is told late: what happened after a round comes before readings much later.
    at = {line["departure"]["node"]: k for k, line in enumerate(lines) if "departure" in line}
    assert at[1] < at[2] < at[3]
    assert json.loads(json.dumps(lines, allow_nan=False)) == lines


def test_watching_changes_nothing():
    plan = planned()
    for engine in (bq.engines.Vector, bq.engines.Loop):
        one, other = engine().run(plan), engine(watch=lambda _: None).run(plan)
        assert np.array_equal(one.x, other.x)
        assert repr(engine()) == repr(engine(watch=print))


def test_a_long_run_is_told_in_part():
    lines = []
    problem = bq.problems.quadratics(n=2, dim=1, mu=1.0, L=2.0, seed=0)
    plan = prepare(problem, [(0, 1)], rounds=9000)
    bq.engines.Vector(watch=lines.append).run(plan)
    rounds = [line["reading"]["round"] for line in lines if "reading" in line]
    assert 2000 <= len(rounds) <= 2500
    assert rounds[:2] == [0, 4]


def asked(address, path=None, host=None):
    """Ask for a page, as a browser does."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
    with closing(connection):
        whole = f"{parts.path}?{parts.query}" if path is None else path
        connection.request("GET", whole, headers={"Host": host or parts.netloc})
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture
def page():
    with LivePage() as live:
        live.begin("a run")
        News(planned(), live.tell)
        yield live


def test_only_a_reader_with_the_address_is_let_in(page):
    parts = urlsplit(page.address)
    assert parts.hostname == "127.0.0.1"
    status, body = asked(page.address)
    assert status == 200
    assert b"connect-src 'self'" in body
    assert b'"live":true' in body
    for path in ("/", "/news", "/?token=", "/?token=guess", "/news?token=" + "x" * 22):
        status, body = asked(page.address, path)
        assert status == 403
        assert b"<script" not in body
        assert b"data:" not in body
    # Another page that has found its way here under another name may not read it either.
    assert asked(page.address, host="example.org")[0] == 403
    assert asked(page.address, f"/other?{parts.query}")[0] == 404


def test_it_listens_nowhere_else(page):
    port = urlsplit(page.address).port
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        with socket.socket() as probe:
            probe.settimeout(1)
            if other.startswith("127."):
                continue
            assert probe.connect_ex((other, port)) != 0


def test_news_arrive_as_they_come_and_end_with_the_run():
    received = []
    with LivePage() as live:
        live.begin("a run")
        reader = Thread(target=lambda: received.append(asked(live.address, news_of(live))))
        reader.start()
        bq.engines.Vector(watch=live.tell).run(planned())
    reader.join(5)
    status, body = received[0]
    assert status == 200
    events = [part for part in body.decode().split("\n\n") if part.startswith(("data", "event"))]
    lines = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert events[-1].startswith("event: over")
    assert "begun" in lines[0]
    assert "ended" in lines[-1]
    assert sum("departure" in line for line in lines) == 3


def news_of(live):
    return "/news?" + urlsplit(live.address).query


def test_the_next_run_is_another_page(page):
    stream = page.news()
    next(stream)
    page.begin("the next run")
    rest = b"".join(stream)
    assert rest.endswith(b"event: next\ndata: \n\n")


RUN_FILE = """
rounds = 60
[problem]
kind = "quadratics"
n = 4
dim = 2
mu = 1.0
L = 4.0
[graph]
kind = "ring"
[departures]
events = [{ node = 1, round = 20 }]
[[wills]]
kind = "classic"
"""


@pytest.mark.parametrize("engine", ["vector", "loop"])
def test_the_command_says_where_the_page_is(tmp_path, engine):
    (tmp_path / "run.toml").write_text(RUN_FILE)
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "run.toml"), "--view", "--engine", engine, "--json"]
    )
    assert done.exit_code == 0
    assert "watch it while it goes on: http://127.0.0.1:" in done.stderr
    assert "?token=" in done.stderr
    assert json.loads(done.stdout)["runs"]


def test_the_growing_log_of_a_cluster_is_shown_as_far_as_it_goes(tmp_path):
    """As ``engines.runtime.monitor`` writes it: a line per event, and readings by the clock."""
    lines = []
    bq.engines.Vector(watch=lines.append).run(planned())
    log = tmp_path / "run-01.jsonl"
    written = []
    for line in lines:
        if "reading" in line:
            if line["reading"]["round"] % 10 == 0:
                written.append({"t": 1.0, **line["reading"]})
        else:
            written.append({"t": 1.0, **line})
    text = "\n".join(json.dumps(line) for line in written)
    log.write_text(text)
    (run,) = read(log)
    assert run.is_whole
    assert len(run.document["departures"]) == 3
    assert run.document["curves"]["rounds"] == list(range(0, 91, 10))
    assert all(value > 0 for value in run.document["curves"]["error"])
    log.write_text(text[: len(text) // 2])
    # It is not on record before it is over: the record's name finds what there is so far.
    (run,) = read(tmp_path / "run-01.record")
    assert not run.is_whole
    assert "still going on" in run.notes[-1]
    assert 0 < len(run.document["curves"]["rounds"]) < 10
    log.write_text(re.sub(r'"heir": \d', '"heir": 60', text))
    with pytest.raises(InvalidLog, match="a damaged one"):
        read(log)
