"""The house style, as far as it can be counted: short modules and functions, and a sentence for everything public."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "ipy_websearch"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_MODULE, MAX_FUNCTION = 300, 50

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed module. Python 3.11 can fail while another thread parses (python/cpython#106905): once more then."""
    source = path.read_text(encoding="utf-8")
    for _ in range(5):
        with suppress(SystemError):
            return ast.parse(source, str(path))
    return ast.parse(source, str(path))


def functions(path: Path) -> Iterator[Function]:
    """Yield all functions and methods of a module."""
    for node in ast.walk(tree(path)):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """Return the lines of a function without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def public(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, node) of public functions, classes and methods; overloads and property setters are left out."""
    for child in node.body:
        if isinstance(child, (*Function.__args__, ast.ClassDef)) and not child.name.startswith("_"):
            marks = [ast.unparse(mark) for mark in child.decorator_list]
            if not any(mark.endswith(("overload", ".setter", ".deleter")) for mark in marks):
                yield child.name, child
            if isinstance(child, ast.ClassDef):
                yield from ((f"{child.name}.{name}", inner) for name, inner in public(child))


def test_there_are_modules_to_look_at() -> None:
    """The checks below would pass on an empty list."""
    assert len(MODULES) > 20


def test_no_module_is_longer_than_300_lines() -> None:
    """A longer one holds two subjects."""
    lines = {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MAX_MODULE} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    """Docstrings are not counted."""
    found = {
        f"{path.relative_to(PACKAGE)}:{function.lineno} {function.name}": length(function)
        for path in MODULES
        for function in functions(path)
    }
    assert {name: count for name, count in found.items() if count > MAX_FUNCTION} == {}


def test_everything_public_has_a_docstring() -> None:
    """Modules, functions, classes and methods; a method may go without where another class documents the same one."""
    found = [(path.relative_to(PACKAGE), name, node) for path in MODULES for name, node in public(tree(path))]
    explained = {name.split(".")[-1] for _, name, node in found if "." in name and ast.get_docstring(node) is not None}
    missing = [f"{path}: the module" for path in MODULES if tree(path).body and ast.get_docstring(tree(path)) is None]
    for path, name, node in found:
        if ast.get_docstring(node) is None and not ("." in name and name.split(".")[-1] in explained):
            missing.append(f"{path}: {name}")
    assert missing == []


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: path.name)
def test_every_test_says_in_one_line_what_it_shows(path: Path) -> None:
    """Each test has a docstring of one line, and its name is a sentence."""
    wrong = []
    for function in functions(path):
        if function.name.startswith("test_"):
            says = ast.get_docstring(function)
            if not says or "\n" in says or function.name.count("_") < 3:
                wrong.append(function.name)
    assert wrong == []
