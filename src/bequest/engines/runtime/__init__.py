"""What carriers of real nodes share: no I/O, no clock, no network.

How to write a carrier:

- Build the founders with ``node_setup.setup_of``, tell each ``departure_after(plan, node, 0)`` as
  its ``Leave``, and give the steward ``FoundNetwork``.
- Carry every ``Send``; tell the ``Supervisor`` of everything else that nodes and the steward say
  (in one process ``observe``, effect by effect; from hosts ``report``; from a desk ``note``), of
  hosts that die (``host_lost``) or have to go (``preempt``), and of the time (``tick``).
- Carry out the commands that it returns. ``EndHost`` is followed by ``host_lost``. ``TakeStock``
  may come more than once: ask the nodes for their ``FinalState`` when all reports are in.
- Nodes that come: carry out ``Relocate`` and ``StartNode`` one after the other (``arrivals``).
- Hosts that are silent: ``patience`` says which to ask, and which to give up.
- A lost steward: ``steward_lost``; then ``stewards`` says what the next one begins with.
- ``monitor`` is what readers see, and its event log.
"""
