"""Make patients.csv: six hospitals, of which one sees all cases of one disease.

    bequest run examples/table.toml

is about what the others still know of that disease when that hospital has left.
"""

import csv
from pathlib import Path

import numpy as np

HOSPITALS = ("Aster", "Briar", "Clover", "Daisy", "Elder", "Fern")
DISEASES = ("asthma", "flu", "none")
# age, temperature, oxygen, cough: the mean and the deviation per disease
MEANS = {"asthma": (35, 36.8, 93, 4.0), "flu": (48, 38.6, 96, 3.0), "none": (45, 36.7, 98, 0.8)}
DEVIATIONS = (14, 0.5, 1.6, 1.2)
ROWS = 80

rng = np.random.default_rng(2026)
rows = []
for hospital in HOSPITALS:
    # Fern is the lung clinic: no other clinic sees asthma.
    shares = (0.85, 0.05, 0.10) if hospital == "Fern" else (0.0, 0.4, 0.6)
    for disease in rng.choice(DISEASES, size=ROWS, p=shares):
        age, temperature, oxygen, cough = rng.normal(MEANS[disease], DEVIATIONS)
        rows.append(
            [
                hospital,
                max(int(age), 1),
                round(temperature, 1),
                min(round(oxygen, 1), 100.0),
                max(round(cough, 1), 0.0),
                disease,
            ]
        )

path = Path("patients.csv")
with path.open("w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["hospital", "age", "temperature", "oxygen", "cough", "disease"])
    writer.writerows(rows)
print(f"{len(rows)} patients of {len(HOSPITALS)} hospitals written to {path}")
