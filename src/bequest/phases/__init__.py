"""What silos agree on by the protocol itself, before a run and after it: no silo sends a row.

A *phase* is a run of a small problem: every silo holds |x - v|^2/2 of a vector v of its own, and
what the nodes agree on is the mean of these vectors. A legacy is an exact memory of such a loss, so
that a phase is exact even if silos leave while it is under way, on every engine, and also where a
vector can only be computed on the host that holds the data.

What a phase reveals: a silo's own vector is not told as such, but its neighbours see where its
iterate starts from and goes, and may reckon back to it; the heir of a silo that leaves inherits it.
So a vector must be something that a silo may tell its neighbours, such as counts and sums over its
rows (``bequest docs tables`` lists them). The process that starts a phase sees the sum.

Paper: cor:quad.
"""

from bequest.model.objectives.isotropic import on_its_host
from bequest.phases.hosts import Agreed, on_hosts
from bequest.phases.newton import Finish, newton
from bequest.phases.sums import SiloSum, phase, total

__all__ = ["Agreed", "Finish", "SiloSum", "newton", "on_hosts", "on_its_host", "phase", "total"]
