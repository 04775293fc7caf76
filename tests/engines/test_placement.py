"""Nodes on hosts, hosts on machines."""

import pytest

from bequest.engines import Ray
from bequest.engines.runtime.placement import Machine, place
from bequest.errors import InvalidMethod, InvalidPlacement
from bequest.protocol.membership_register import domains_of

FOUR = [Machine(f"id{k}", f"machine-{k}", 2.0) for k in range(4)]
ONE = [Machine("id", "10.0.0.1", 3.0)]


def test_by_default_a_host_per_machine():
    placement = place(10, FOUR)
    assert [len(placement.nodes_of(h)) for h in placement.machines] == [3, 3, 3, 1]
    assert {m.name for m in placement.machines.values()} == {m.name for m in FOUR}


def test_on_one_machine_a_host_per_cpu():
    placement = place(7, ONE)
    assert len(placement.machines) == 3
    assert placement.domains == placement.hosts


def test_failure_domains_name_the_machines_where_there_are_several():
    placement = place(16, FOUR, nodes_per_host=2)
    assert len(placement.machines) == 8
    for node, domain in placement.domains.items():
        host, machine = domains_of(domain)
        assert host == f"{machine}/{placement.hosts[node]}"
        assert machine == placement.machines[placement.hosts[node]].name
    assert {domains_of(domain)[1] for domain in placement.domains.values()} == {
        machine.name for machine in FOUR
    }


def test_fewer_nodes_than_machines():
    assert len(place(2, FOUR).machines) == 2
    assert place(1, ONE).hosts == {0: "host 0"}


def test_explicit_placement_and_names_of_machines():
    wish = {0: "machine-2", 1: "a", 2: "machine-2", 3: "b"}
    placement = place(4, FOUR, placement=wish)
    assert placement.machines["machine-2"].name == "machine-2"
    assert placement.nodes_of("machine-2") == [0, 2]
    assert len({m.ident for m in placement.machines.values()}) == 3


def test_hosts_that_take_nothing_fit_anywhere():
    assert len(place(20, ONE, nodes_per_host=1, cpus_per_host=0).machines) == 20


@pytest.mark.parametrize(
    ("n", "options", "says"),
    [
        (9, {"nodes_per_host": 1}, "9 nodes on 9 hosts need 9 CPUs.*room for 8"),
        (4, {"placement": {0: "a", 1: "a", 2: "a"}}, "leaves out node 3"),
        (1, {"placement": {0: "a", 7: "a"}}, "names node 7"),
        (2, {"placement": {0: "a", 1: ""}}, "host of node 1 has no name"),
        (3, {"nodes_per_host": 1, "cpus_per_host": 2.5}, "room for 0"),
        (
            3,
            {"placement": {0: "machine-1", 1: "b", 2: "c"}, "cpus_per_host": 0.5},
            None,
        ),
    ],
)
def test_what_does_not_fit_is_refused(n, options, says):
    if says is None:
        assert place(n, FOUR, **options)
        return
    with pytest.raises(InvalidPlacement, match=says):
        place(n, FOUR, **options)


def test_a_machine_that_is_full_is_named():
    small = [Machine("a", "small", 0.0), Machine("b", "large", 4.0)]
    with pytest.raises(InvalidPlacement, match="Machine small has no room"):
        place(1, small, placement={0: "small"})


@pytest.mark.parametrize(
    "options",
    [
        {"nodes_per_host": 0},
        {"nodes_per_host": 2, "placement": {0: "a"}},
        {"placement": "everywhere"},
        {"cpus_per_host": -1},
        {"cpus_per_host": float("nan")},
        {"patience": 0},
        {"startup": True},
        {"grace": -0.1},
        {"resume": True},
        {"record": 3},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(InvalidMethod):
        Ray(**options)
