"""Studies that take no time, in a module of their own so that worker processes find them."""

import numpy as np

from bequest import errors
from bequest.paper.studies.study import Findings


def double(*, seed: int) -> Findings:
    return Findings({"x": np.arange(3) * seed}, {"seed": seed, "nothing": None})


def broken(*, seed: int) -> Findings:
    raise errors.InvalidMethod("no", remedy="never")
