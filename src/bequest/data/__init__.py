"""A user's own table: read it, choose its columns, make losses of it, and grade the model.

table = bq.data.read_table("patients.csv")
samples = bq.data.select(table, label="diagnosis", silo="hospital", test_fraction=0.3)
silos = bq.partition.by_column(samples.silo)
problem = bq.data.problem_of(samples, silos, loss="softmax", l2=0.01)
...
samples.exam.score(run.x.mean(axis=0)).accuracy

Where every node has a file of its own, on its own host, ``loader`` says how to read it there.
"""

from bequest.data.frames import as_table
from bequest.data.grading import Exam, Score
from bequest.data.loading import Loader, loader
from bequest.data.losses import problem_of
from bequest.data.reading import read_silos, read_table
from bequest.data.samples import Samples, select
from bequest.data.tables import Table
from bequest.data.trained import TrainedModel, load_model, trained

__all__ = [
    "Exam",
    "Loader",
    "Samples",
    "Score",
    "Table",
    "TrainedModel",
    "as_table",
    "load_model",
    "loader",
    "problem_of",
    "read_silos",
    "read_table",
    "select",
    "trained",
]
