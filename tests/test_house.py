"""The shape of the package: few rooms, few loose modules, no class or module that knows too much."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gdpnet"
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a module imports."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name for name in names if name.split(".")[0] == "gdpnet"}


def test_the_package_has_at_most_ten_rooms_and_eight_loose_modules():
    rooms = {path.parts[0] for path in (one.relative_to(SOURCE) for one in MODULES) if len(path.parts) > 1}
    assert len(rooms) <= 10
    assert len(list(SOURCE.glob("*.py"))) <= 8


def test_no_class_has_more_than_twenty_methods():
    large = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                count = sum(isinstance(part, ast.FunctionDef) for part in node.body)
                large |= {f"{path.name}:{node.name}": count} if count > 20 else {}
    assert large == {}


def test_no_module_imports_more_than_fifteen_others():
    counts = {str(path.relative_to(SOURCE)): len(imported(path)) for path in MODULES}
    assert {name: count for name, count in counts.items() if count > 15} == {}
