"""Five hospitals fit one risk model together; one of them quits, and is not forgotten.

Each hospital sees other patients (its ages are shifted), so the model without the one that
quit is a different model. No hospital ever shares a patient record: neighbours exchange iterates
and trackers, and the leaver hands two vectors to one of them.
"""

import numpy as np

import bequest as bq

rng = np.random.default_rng(2026)
truth = np.array([1.5, -2.0, 0.5])


def patients(shift: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.column_stack([rng.normal(shift, 1.0, count), rng.normal(size=count), np.ones(count)])
    risk = 1 / (1 + np.exp(-X @ truth))
    return X, (rng.random(count) < risk).astype(float)


hospitals = [bq.Logistic(*patients(shift, 80), l2=0.02) for shift in (-2.0, -1.0, 0.0, 1.0, 3.0)]
problem = bq.Problem(hospitals)
ring = bq.graphs.ring(5)
quits = [bq.Departure(node=4, round=150)]

for will in (bq.wills.Classic(), bq.wills.Consensus(), bq.wills.Adaptive()):
    run = bq.solve(problem, ring, departures=quits, will=will, rounds=1500)
    print(f"{will.title:22} ends {run.error[-1]:.2e} from the model of all five hospitals")
    print(f"{'':22} {run.departures[0]}")
