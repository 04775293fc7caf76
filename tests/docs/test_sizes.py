"""Rooms stay small enough to be read: what CONTRIBUTING.md promises about modules and classes."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "bequest"
MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_has_450_lines_and_a_class_25_methods_at_most(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 450
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            methods = [
                f for f in node.body if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            assert len(methods) <= 25, node.name
