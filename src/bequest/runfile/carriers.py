"""The section [engine] of a run file: what carries the nodes."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from bequest.engines import Engine, Loop, Ray, Vector, Weather
from bequest.runfile.fields import Count, Node, Section, refusal

EngineKind = Literal["vector", "loop", "ray"]
# Which options belong to which kind; the vector engine has none.
ENGINES: dict[str, tuple[str, ...]] = {
    "vector": (),
    "loop": ("hosts", "delay", "duplication", "seed", "as_bytes"),
    "ray": ("address", "nodes_per_host", "placement", "cpus_per_host", "patience", "grace"),
}
Duration = Annotated[float, Field(ge=0)]


class EngineSection(Section):
    """What carries the nodes; ``ENGINES`` says which options belong to which kind.

    They stand in one section so that an option of another kind is told from an unknown one.
    """

    kind: EngineKind
    hosts: Count | None = None
    delay: Annotated[list[Duration], Field(min_length=2, max_length=2)] | None = None
    duplication: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    as_bytes: bool | None = None
    address: str | None = None
    nodes_per_host: Count | None = None
    placement: dict[Annotated[Node, Field(strict=False)], str] | None = None
    cpus_per_host: Annotated[float, Field(ge=0)] | None = None
    patience: Annotated[float, Field(gt=0)] | None = None
    grace: Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:  # noqa: ANN401 - any TOML value
        """Complain about keys that no kind knows, and name those that this kind knows."""
        if isinstance(data, dict) and (unknown := [k for k in data if k not in cls.model_fields]):
            known = ["kind", *ENGINES.get(str(data.get("kind")), list(cls.model_fields)[1:])]
            raise PydanticCustomError("unknown", "unknown", {"keys": unknown, "known": known})
        return data

    @model_validator(mode="after")
    def _possible(self) -> "EngineSection":
        for name in self._given():
            if name not in ENGINES[self.kind]:
                owner = next(kind for kind, options in ENGINES.items() if name in options)
                raise refusal(
                    f'is of no use with kind = "{self.kind}".',
                    f'Remove it, or use kind = "{owner}".',
                    at=(name,),
                )
        if self.delay is not None and self.delay[0] > self.delay[1]:
            raise refusal(
                f"is [{self.delay[0]:g}, {self.delay[1]:g}].",
                "Write the least delay first, then the largest.",
                at=("delay",),
            )
        if self.nodes_per_host is not None and self.placement is not None:
            raise refusal("has both nodes_per_host and placement.", "Keep the one you mean.")
        return self

    def _given(self) -> list[str]:
        """Return which options are there, in the order in which they are described."""
        return [name for name in type(self).model_fields if getattr(self, name) is not None][1:]

    def build(self, seed: int) -> Engine:
        """Return the engine for a run with this seed."""
        if self.kind == "vector":
            return Vector()
        if self.kind == "ray":
            return Ray(**{name: getattr(self, name) for name in self._given()})
        least, most = self.delay or (0.0, 0.0)
        weather = Weather(
            seed if self.seed is None else self.seed, (least, most), self.duplication or 0.0
        )
        return Loop(weather, self.hosts or 1, as_bytes=bool(self.as_bytes))
