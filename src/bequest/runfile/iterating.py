"""The section [method] of a run file: how nodes iterate."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag, model_validator

from bequest.core import methods
from bequest.errors import BequestError
from bequest.model.default_method import default_method
from bequest.model.problem import Problem
from bequest.runfile.fields import Section, refusal
from bequest.runfile.schema import sections_of

METHODS: dict[str, type[methods.Method]] = {
    "gradient-tracking": methods.GradientTracking,
    "nids": methods.NIDS,
    "exact-diffusion": methods.ExactDiffusion,
    "extra": methods.EXTRA,
    "diging": methods.DIGing,
    "admm": methods.ADMM,
    "dgd": methods.DGD,
}


class MethodSection(Section):
    """A method by its kind, with the options of its class, and what may be put around any.

    ``momentum`` is the part of its last movement that a node goes on by, ``half`` after how many
    rounds steps are half as long.
    """

    kind: str
    momentum: float | None = None
    half: int | None = None

    @model_validator(mode="after")
    def _possible(self) -> "MethodSection":
        try:
            self.build()
        except BequestError as error:
            raise refusal(error.what, _in_toml(error.remedy)) from error
        return self

    def build_for(self, problem: Problem) -> methods.Method:  # noqa: ARG002 - its kind says it
        """Return the method for a problem."""
        return self.build()

    def build(self) -> methods.Method:
        """Return the method."""
        method = METHODS[self.kind](**self.model_dump(exclude={"kind", "momentum", "half"}))
        if self.momentum is not None:
            method = methods.Momentum(method, self.momentum)
        return method if self.half is None else methods.Decaying(method, self.half)


class HalvedSection(Section):
    """The default method, with steps that shrink: a table that says nothing but that."""

    half: int

    @model_validator(mode="after")
    def _possible(self) -> "HalvedSection":
        try:
            methods.Decaying(methods.NIDS(), self.half)
        except BequestError as error:
            raise refusal(error.what, error.remedy) from error
        return self

    def build_for(self, problem: Problem) -> methods.Method:
        """Return the method for a problem."""
        return methods.Decaying(default_method(problem), self.half)


def _in_toml(remedy: str) -> str:
    """Return a remedy as a run file says it: methods by their kinds."""
    for kind, make in METHODS.items():
        remedy = remedy.replace(f"{make.__name__}()", f'kind = "{kind}"')
    return remedy.replace("None", '"none"')


def spelled(method: methods.Method) -> dict[str, Any]:
    """Return a method as a run file says it: its kind, and the options that are not left open."""
    around: dict[str, Any] = {}
    while isinstance(method, methods.Momentum | methods.Decaying):
        around |= {k: v for k, v in vars(method).items() if k != "method"}
        method = method.method
    kind = next(kind for kind, make in METHODS.items() if type(method) is make)
    return {"kind": kind, **{k: v for k, v in vars(method).items() if v is not None}, **around}


def _with_a_kind(data: object) -> object:
    """Take a bare step for that of gradient tracking, and an empty table for none.

    Steps may shrink with the default method too; momentum is not for that one.
    """
    if not isinstance(data, dict) or "kind" in data or _of_what(data) == _THE_DEFAULT:
        return data
    if "momentum" in data and "step" not in data:
        raise refusal(
            "has momentum, which is not for the default method, NIDS.",
            'Add kind = "gradient-tracking" or kind = "diging", or remove momentum.',
        )
    return {"kind": "gradient-tracking", **data} if data else None


# What the section may be about; these are no keys of it.
_A_KIND, _THE_DEFAULT = "a kind", "the default"


def _of_what(data: object) -> str:
    """Tell a method of a kind from the default one with steps that shrink."""
    if isinstance(data, dict):
        return _THE_DEFAULT if [*data] == ["half"] else _A_KIND
    return _THE_DEFAULT if isinstance(data, HalvedSection) else _A_KIND


if TYPE_CHECKING:
    AnyMethod = MethodSection | HalvedSection | None
else:
    AnyMethod = Annotated[
        Annotated[
            Annotated[sections_of(MethodSection, METHODS), Tag(_A_KIND)]
            | Annotated[HalvedSection, Tag(_THE_DEFAULT)],
            Discriminator(_of_what),
        ]
        | None,
        BeforeValidator(_with_a_kind),
    ]
