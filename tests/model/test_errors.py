"""The tree of errors is the one that is drawn, and an error keeps its remedy wherever it goes."""

import copy
import inspect
import pickle
import re

import pytest

import bequest as bq
from bequest import errors

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, BaseException)
}


def drawn_tree():
    """name -> the name above it, read off the drawing in the module's docstring."""
    parents, path = {}, []
    for line in inspect.getdoc(errors).splitlines():
        found = re.match(r"^ {4}(?P<lead>[│├└─ ]*)(?P<name>[A-Z]\w+)\b", line)
        if found is None:
            continue
        depth = len(found["lead"]) // 4
        del path[depth:]
        parents[found["name"]] = path[-1] if path else None
        path.append(found["name"])
    return parents


def test_the_drawn_tree_is_the_class_tree():
    drawn = drawn_tree()
    assert set(drawn) == set(CLASSES)
    for name, parent in drawn.items():
        above = Exception if parent is None else CLASSES[parent]
        assert CLASSES[name].__bases__[0] is above, name


def test_the_drawing_has_a_root_and_branches():
    drawn = drawn_tree()
    assert [name for name, parent in drawn.items() if parent is None] == ["BequestError"]
    assert drawn["NotFinite"] == "InvalidObjective"
    assert drawn["OptimumUnknown"] == "BequestError"


def test_what_the_drawing_says_beside_a_name_is_what_its_docstring_says():
    for line in inspect.getdoc(errors).splitlines():
        found = re.match(r"^ {4}[│├└─ ]+(?P<name>[A-Z]\w+) {2,}(?P<says>.+)$", line)
        if found and "raised by" not in found["says"] and "minimiser" not in found["says"]:
            says = found["says"].casefold().split()
            docstring = CLASSES[found["name"]].__doc__.casefold()
            shared = sum(word in docstring for word in says)
            assert shared >= 0.6 * len(says), found["name"]


def test_refused_input_is_a_value_error_and_nothing_else_is():
    for kind in CLASSES.values():
        assert issubclass(kind, ValueError) == issubclass(kind, errors.InvalidInput)


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_survives_pickling_and_copying_with_its_remedy(name):
    error = CLASSES[name]("Node 3 is wrong.", remedy="Mend node 3.")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
        assert type(again) is CLASSES[name]
        assert (again.what, again.remedy) == ("Node 3 is wrong.", "Mend node 3.")
        assert str(again) == str(error) == "Node 3 is wrong. Mend node 3."
    assert copy.copy(error).remedy == copy.deepcopy(error).remedy == "Mend node 3."


def test_a_real_error_survives_pickling():
    with pytest.raises(errors.DisconnectedGraph) as caught:
        bq.Graph([(0, 1)], n=3)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert str(again) == str(caught.value)
    assert again.remedy == caught.value.remedy


def test_an_error_cannot_be_made_without_a_remedy():
    with pytest.raises(TypeError):
        errors.InvalidGraph("no way out")
