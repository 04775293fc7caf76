"""The cluster: the same nodes as processes of Ray, preempted, killed and still right.

::

    driver      starts everything, watches, collects; the run goes on without it
    office      watches over the processes, keeps the record             (office, chronicle)
    steward     serialises membership changes, sees no vector            (stewardship)
    host ...    one process with one or many nodes                       (host, crew)

Hosts talk to each other directly: per round one call with one buffer (``parcels``). Everything
that imports Ray is imported when a run begins.
"""

from bequest.engines.ray.engine import Ray, one_cluster
from bequest.engines.ray.view import Happening, HostView, View

__all__ = ["Happening", "HostView", "Ray", "View", "one_cluster"]
