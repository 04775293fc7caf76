"""Stands in for Ray's dashboard agent, of which each machine starts one.

Without Ray's dashboard installed the agent says that it serves no port, and waits for its raylet
to end. It takes a second of processor to get that far, five times for four machines; this one
says the same at once.
"""

import os
import sys
import time

said = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
for port in ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"):
    path = f"{said['session-dir']}/{port}_{said['node-id']}"
    with open(f"{path}.new", "w") as file:  # noqa: PTH123 - pathlib takes longer than all the rest
        file.write("-1")
    os.rename(f"{path}.new", path)  # noqa: PTH104
raylet = os.getppid()
while os.getppid() == raylet:
    time.sleep(0.5)
