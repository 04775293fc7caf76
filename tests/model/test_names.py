"""One name per will, everywhere; the paper's names are for what is the paper's."""

import pytest

import bequest as bq
from bequest.demo import cluster, digits
from bequest.documents import document_of
from bequest.paper.report.sections import beyond as shown
from bequest.paper.report.sections import robustness as told
from bequest.paper.studies import beyond, robustness, rules, setups
from bequest.runfile import load

WILLS = bq.wills
NAMES = {
    "classic": WILLS.Classic(),
    "forgetful": WILLS.Forgetful(),
    "consensus (GT-C)": WILLS.Consensus(),
    "local track (GT-M)": WILLS.LocalTrack(),
    "point only (GT-P)": WILLS.PointOnly(),
    "certified (Legacy-GT)": WILLS.Adaptive(rule="certified"),
    "oracle": WILLS.Adaptive(rule="oracle"),
    "adaptive": WILLS.Adaptive(),
    "drift (2 vectors)": WILLS.Drift(),
    "drift (6 vectors, secant)": WILLS.Drift(rank=4, hessian="secant"),
    "full Hessian": WILLS.FullHessian(),
    "budget (6 vectors)": WILLS.Budget(6),
}
OURS = {"adaptive", "drift (2 vectors)", "drift (6 vectors, secant)", "full Hessian"}
OURS |= {"budget (6 vectors)", "forgetful", "oracle"}


@pytest.mark.parametrize("name", NAMES)
def test_a_will_goes_by_one_name(name):
    assert NAMES[name].title == name
    assert ("GT" in name) is (name not in OURS and name != "classic")


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
@pytest.mark.parametrize("name", NAMES)
def test_records_and_documents_use_it(name, engine):
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.ring(4),
        departures=[bq.Departure(0, 8), bq.Crash(1, 12)],
        will=NAMES[name],
        rounds=20,
        engine=engine,
    )
    assert [record.will for record in run.departures] == [name, name]
    document = document_of(run, will=name, seed=0, exam=None)
    assert [record["will"] for record in document["departures"]] == [name, name]
    assert ("Legacy-GT" in str(document)) is (name == "certified (Legacy-GT)")


KINDS = {
    "classic": "kind = 'classic'",
    "forgetful": "kind = 'forgetful'",
    "consensus (GT-C)": "kind = 'consensus'",
    "local track (GT-M)": "kind = 'local-track'",
    "point only (GT-P)": "kind = 'point-only'",
    "certified (Legacy-GT)": "kind = 'adaptive'\nrule = 'certified'",
    "oracle": "kind = 'adaptive'\nrule = 'oracle'",
    "adaptive": "kind = 'adaptive'",
    "drift (2 vectors)": "kind = 'drift'",
    "drift (6 vectors, secant)": "kind = 'drift'\nrank = 4\nhessian = 'secant'",
    "full Hessian": "kind = 'full-hessian'",
    "budget (6 vectors)": "kind = 'budget'\nvectors = 6",
    "replay (moments, rank 8)": "kind = 'replay'",
    "replay (4 centroids)": "kind = 'replay'\ncentroids = 4",
    # what a title does not say is said beside it
    "point only (GT-P), cap=None": "kind = 'point-only'\ncap = 'none'",
    "certified (Legacy-GT), drop=sensitivity": (
        "kind = 'adaptive'\nrule = 'certified'\ndrop = 'sensitivity'"
    ),
    "adaptive (4 vectors)": "kind = 'adaptive'\nvectors = 4",
    "adaptive (2 vectors), branches=('drift', 'none')": (
        "kind = 'adaptive'\nvectors = 2\nbranches = ['drift', 'none']"
    ),
}
RUN = """
rounds = 5
[problem]
kind = "quadratics"
n = 4
dim = 2
mu = 1.0
L = 4.0
[graph]
kind = "ring"
"""


def test_run_files_use_it(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN + "".join(f"[[wills]]\n{will}\n" for will in KINDS.values()))
    jobs = list(load(path).jobs())
    assert [job.label for job in jobs] == list(KINDS)
    for job in jobs:
        assert job.label.startswith(job.plan.wills[0].title)


STUDIES = {
    "digits": digits.WILLS,
    "cluster": cluster.WILLS,
    "paper": setups.PAPER,
    "beyond": {shown.SHOWN.get(name, name): will for name, will in beyond.WILLS.items()},
    "rules": rules.RULES,
    "robustness": {
        told.SHOWN.get(name, name): will
        for name, will in (robustness.WILLS | robustness.RULES).items()
    },
}


@pytest.mark.parametrize("study", STUDIES)
def test_no_study_calls_ours_by_a_name_of_the_paper(study):
    papers = {
        "GT-C": (WILLS.Consensus(),),
        "GT-M": (WILLS.LocalTrack(),),
        "GT-P": (WILLS.PointOnly(),),
        # the paper's experiments select by oracle distances; the rule itself is the certified one
        "Legacy-GT": (WILLS.Adaptive(rule="certified"), WILLS.Adaptive(rule="oracle")),
    }
    for name, will in STUDIES[study].items():
        for label, allowed in papers.items():
            if label in name:
                assert will in allowed


def test_the_demo_shows_the_paper_by_its_own_rule():
    (will,) = (will for name, will in digits.WILLS.items() if "Legacy-GT" in name)
    assert will == WILLS.Adaptive(rule="certified")


def test_what_is_derived_from_the_papers_rule_goes_by_its_own_name():
    class Wiser(WILLS.Adaptive):
        pass

    assert Wiser(rule="certified").title == "Wiser"
