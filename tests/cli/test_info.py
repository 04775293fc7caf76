import json

import bequest as bq


def test_info_lists_what_there_is(bequest):
    result = bequest("info")
    assert result.exit_code == 0
    for word in (
        "numpy",
        "blas",
        "cores",
        "plot installed",
        "ring_with_chords",
        "point-only",
        "nids 1",
    ):
        assert word in result.stdout


def test_info_as_json(bequest):
    facts = json.loads(bequest("info", "--json").stdout)
    assert facts["versions"]["bequest"] == bq.__version__
    assert facts["cores"] >= 1
    assert facts["extras"].keys() == {
        "plot", "data", "sklearn", "frame", "parquet", "onnx", "ray", "torch", "jax",
    }  # fmt: skip
    assert facts["extras"]["plot"] is facts["extras"]["data"] is facts["extras"]["parquet"] is True
    assert "Quadratic" in facts["objectives"]
    assert "Objective" not in facts["objectives"]
    assert "Vector" in facts["engines"]
    assert "Engine" not in facts["engines"]
    assert {"quadratics", "explicit", "table"} <= set(facts["problems"])
    sent = facts["vectors_per_edge_and_round"]
    assert list(sent) == facts["methods"]
    assert (sent["gradient-tracking"], sent["nids"], sent["diging"]) == (2, 1, 2)


def test_version(bequest):
    result = bequest("--version")
    assert result.exit_code == 0
    assert result.stdout == f"bequest {bq.__version__}\n"


def test_help_names_the_commands(bequest):
    for arguments in ([], ["--help"], ["-h"]):
        text = bequest(*arguments).output
        for name in ("run", "demo", "info"):
            assert name in text


def test_a_misspelt_command_is_told_in_words(bequest):
    result = bequest("rum")
    assert result.exit_code == 2
    assert "rum" in result.stderr
