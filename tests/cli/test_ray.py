"""[engine] kind = "ray" and --engine ray, as far as that goes without a cluster."""

import pytest

from bequest.engines import Loop, Ray, Vector
from bequest.runfile import load

PLACES = "\n".join(f"{node} = 'm{node % 2}'" for node in range(6))


def refused(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for word in (*words, "what to do: "):
        assert word in result.stderr, (word, result.stderr)


def engine_of(path, on=None):
    plan = load(path) if on is None else load(path).on(on)
    return next(plan.jobs()).engine


def test_the_options_reach_the_engine(write):
    options = "address = 'auto'\nnodes_per_host = 2\ncpus_per_host = 0.5\npatience = 9\ngrace = 3.0"
    assert engine_of(write(rest=f"[engine]\nkind = 'ray'\n{options}\n")) == Ray(
        "auto", 2, cpus_per_host=0.5, patience=9.0, grace=3.0
    )
    path = write(rest=f"[engine]\nkind = 'ray'\n[engine.placement]\n{PLACES}\n")
    assert engine_of(path).placement == {node: f"m{node % 2}" for node in range(6)}


def test_the_command_overrules_the_file(write):
    path = write(rest="[engine]\nkind = 'ray'\nnodes_per_host = 2\n")
    assert engine_of(path, on="ray") == Ray(nodes_per_host=2)
    assert isinstance(engine_of(path, on="vector"), Vector)
    assert isinstance(engine_of(path, on="loop"), Loop)
    assert next(load(path).at("a:1").jobs()).engine == Ray("a:1", 2)
    assert engine_of(write(), on="ray") == Ray()


@pytest.mark.parametrize(
    ("rest", "what", "remedy"),
    [
        ("kind = 'rai'", 'engine.kind: is "rai", which is not known.', 'mean "ray"?'),
        ("kind = 'vector'\npatience = 2", "engine.patience: is of no use", 'kind = "ray"'),
        ("kind = 'loop'\naddress = 'x'", 'address: is of no use with kind = "loop"', '"ray"'),
        ("kind = 'ray'\nhosts = 2", 'hosts: is of no use with kind = "ray"', 'kind = "loop"'),
        ("kind = 'ray'\nseed = 2", 'seed: is of no use with kind = "ray"', 'kind = "loop"'),
        ("kind = 'ray'\nadress = 'x'", "engine.adress: is not a known key.", "mean address?"),
        ("kind = 'ray'\ncolour = 1", "colour: is not a known key.", "kind, address, nodes_per"),
        ("kind = 'vector'\ncolour = 1", "colour: is not a known key.", "Use one of kind."),
        ("kind = 'ray'\naddress = 6379", "engine.address: is 6379, but must be a text", "text"),
        ("kind = 'ray'\nnodes_per_host = 0", "nodes_per_host: is 0.", "at least 1"),
        ("kind = 'ray'\nnodes_per_host = 1.5", "nodes_per_host: is 1.5", "whole number"),
        ("kind = 'ray'\ncpus_per_host = -1", "cpus_per_host: is -1.", "at least 0"),
        ("kind = 'ray'\npatience = 0", "engine.patience: is 0.", "above 0"),
        ("kind = 'ray'\npatience = inf", "engine.patience: is inf", "finite"),
        ("kind = 'ray'\ngrace = -1.0", "engine.grace: is -1.0.", "at least 0"),
        ("kind = 'ray'\nplacement = 'm'", "engine.placement: is", "a table"),
        (f"kind = 'ray'\n[engine.placement]\n{PLACES}\n7 = 'm'", "placement.7: names", "0..5"),
        ("kind = 'ray'\n[engine.placement]\n0 = 'm'", "placement: leaves out node 1.", "0..5"),
        (
            "kind = 'ray'\n[engine.placement]\nx = 'm'",
            'names "x", but nodes have names only where',
            "number",
        ),
        ("kind = 'ray'\n[engine.placement]\n0 = 1", "placement.0: is 1, but must be a text", "te"),
        (
            f"kind = 'ray'\nnodes_per_host = 2\n[engine.placement]\n{PLACES}",
            "engine: has both nodes_per_host and placement.",
            "Keep the one you mean.",
        ),
    ],
)
def test_what_is_wrong_with_the_engine_is_told_in_words(bequest, write, rest, what, remedy):
    refused(bequest("run", write(rest=f"[engine]\n{rest}\n")), what, remedy)


@pytest.mark.parametrize("engine", ["vector", "loop"])
def test_an_address_needs_the_ray_engine(bequest, write, engine):
    result = bequest("run", write(), "--engine", engine, "--address", "10.0.0.7:6379")
    refused(result, "--address 10.0.0.7:6379", f"{engine} engine", "--engine ray", 'kind = "ray"')


def test_a_log_needs_the_loop_engine(bequest, write, tmp_path):
    result = bequest("run", write(), "--engine", "ray", "--log", tmp_path / "logs")
    refused(result, "ray engine", "--engine loop")


def test_on_a_cluster_everybody_may_have_to_leave_so_everybody_gets_a_pilot(write):
    will = "[[wills]]\nkind = 'adaptive'\nrule = 'certified'\n"
    path = write(rest=will)
    assert next(load(path).jobs()).plan.pilot is None
    assert next(load(path).on("ray").jobs()).plan.pilot is not None
    # Where a node leaves as planned, the pilot is the one that all engines get.
    path = write(rest="[departures]\nevents = [{node = 1, round = 50}]\n" + will)
    pilots = [next(load(path).on(kind).jobs()).plan.pilot for kind in ("vector", "ray")]
    assert repr(pilots[0]) == repr(pilots[1])
