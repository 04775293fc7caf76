"""The demo with a network: threads that wait for each other take longer than the rounds."""

import pytest
import torch

from bequest.demo import networks


class Enough(Exception):
    """Stops the demo where the test has seen what it came for."""


def test_what_a_problem_asks_of_its_losses_is_computed_in_one_thread_too(monkeypatch):
    seen = []

    def problem(silos):
        seen.append((len(silos), torch.get_num_threads()))
        raise Enough

    monkeypatch.setattr(networks, "Problem", problem)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(Enough):
            networks.study(0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [(10, 1)]
