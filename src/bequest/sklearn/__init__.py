"""scikit-learn's estimators, trained across silos that may leave on the way.

from bequest.sklearn import SiloLogisticRegression

model = SiloLogisticRegression(C=1.0, departures=[bq.Departure("charite", 300)])
model.fit(X, y, silos=hospital).predict(X_new)

Parameters mean what they mean in scikit-learn, and every sample counts the same: without departures
the coefficients are those of scikit-learn's estimator on the pooled table.
"""

from bequest import extras

extras.need("sklearn", what="bequest.sklearn")

from bequest.sklearn.classifier import SiloLogisticRegression  # noqa: E402 - asked for first
from bequest.sklearn.pipelines import to_model  # noqa: E402
from bequest.sklearn.regressors import SiloHuber, SiloRidge  # noqa: E402

__all__ = ["SiloHuber", "SiloLogisticRegression", "SiloRidge", "to_model"]
