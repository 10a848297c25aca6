"""What holds the repository and the built wheel to the project's own rules."""

import ast
import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fault_injection
import verl_dump

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(os.environ.get("VERL_DUMP_CHECKOUT") or Path(__file__).resolve().parent.parent)
"""The repository: under tox, the tests and the packages are imported from elsewhere."""

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = tuple(PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])

HEAVY = {"datasets", "hypothesis", "pandas", "pyarrow", "pyfakefs", "ray", "torch", "verl"}

installed_only = pytest.mark.skipif(
    not os.environ.get("VERL_DUMP_INSTALLED"),
    reason="VERL_DUMP_INSTALLED is not set: tox sets it where it tests the wheel",
)


def repository_files() -> Iterator[Path]:
    """Every file of the repository, found without git: environments, caches and what was built left out."""
    for folder, folders, files in os.walk(CHECKOUT):
        folders[:] = [
            name
            for name in folders
            if (not name.startswith(".") or name in {".ci", ".github"})
            and name not in {"__pycache__", "build", "dist"}
            and not name.endswith(".egg-info")
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        ]
        yield from (Path(folder, name) for name in files if not name.endswith(".pyc"))


def code_files(*folders: str) -> list[Path]:
    """The Python files below these folders of the repository."""
    return [path for folder in folders for path in sorted((CHECKOUT / folder).rglob("*.py"))]


def nodes(path: Path) -> Iterator[ast.AST]:
    """Every node of the syntax tree of a file."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))


def where(path: Path, node: ast.AST | None = None) -> str:
    """The place of a finding, as an editor opens it."""
    line = f":{node.lineno}" if node is not None else ""
    return f"{path.relative_to(CHECKOUT).as_posix()}{line}"


def imported(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """The modules that a file imports by absolute name, and where."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node, node.module or ""
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def is_one_sentence(docstring: str) -> bool:
    """Whether a docstring is one sentence, over one line or several."""
    text = " ".join(docstring.split())
    return bool(re.fullmatch(r"[^a-z].*\.", text)) and not re.search(r"(?<!e\.g)(?<!i\.e)[.!?]\s+[A-Z]", text)


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a statement brings into a new interpreter."""
    script = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("docstring", "verdict"),
    [
        pytest.param("A failed dump leaves nothing behind.", True, id="one-line"),
        pytest.param("A failed dump\n    leaves `1.jsonl` and e.g. its rows alone.", True, id="two-lines"),
        pytest.param("a failed dump leaves nothing behind.", False, id="lower-case"),
        pytest.param("A failed dump leaves nothing behind", False, id="no-stop"),
        pytest.param("A dump fails. It leaves nothing behind.", False, id="two-sentences"),
        pytest.param("", False, id="empty"),
    ],
)
def test_sentence_check_knows_a_sentence(docstring: str, verdict: bool) -> None:
    """The check of the docstrings accepts one sentence and nothing else."""
    assert is_one_sentence(docstring) is verdict


def test_every_test_states_its_law() -> None:
    """Every test function of the suite has a docstring of one sentence."""
    tests = [
        (path, node)
        for path in sorted((CHECKOUT / "tests").glob("test_*.py"))
        for node in nodes(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test")
    ]
    assert len(tests) > 10
    assert [
        where(path, node) for path, node in tests if not is_one_sentence(ast.get_docstring(node) or "")
    ] == []


def test_no_test_sleeps() -> None:
    """No test waits for a time to pass instead of for an event."""
    sleeps = [
        where(path, node)
        for path in code_files("tests")
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep")
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "time"
            and "sleep" in {a.name for a in node.names}
        )
    ]
    assert sleeps == []


def test_no_file_names_a_machine() -> None:
    """No file of the repository names a path of one machine or the host of a package registry."""
    # Put together from pieces, so that this file does not name them either.
    folders = "|".join(("work", "root", "home", "opt" + "/dev"))
    hosts = "|".join(rf"\b{name}\.(?:org|com)\b" for name in ("pypi", "pythonhosted", "npmjs", "debian"))
    machine = re.compile(rf"(?<![\w.~}})-])/(?:{folders})/|{hosts}".encode())
    assert machine.search(b"see /" + b"root/x")
    found = [
        f"{where(path)}: {match.group().decode()}"
        for path in repository_files()
        for match in machine.finditer(path.read_bytes())
    ]
    assert found == []


def test_writer_never_imports_the_fault_layer() -> None:
    """The reference writer imports nothing of the package that tests it."""
    files = code_files("verl_dump")
    assert files
    assert [
        where(path, node)
        for path in files
        for node, name in imported(path)
        if name.split(".")[0] == "fault_injection"
    ] == []


def test_modules_stay_short() -> None:
    """No module of the code is longer than 400 lines, and no function longer than 60."""
    files = code_files(*PACKAGES)
    assert files
    long_modules = [where(path) for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 400]
    long_functions = [
        where(path, node)
        for path in files
        for node in nodes(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 60
    ]
    assert long_modules + long_functions == []


def test_types_of_every_package_are_checked() -> None:
    """Every folder of code but the tests is named to the type check, and every shipped package is marked as typed."""
    folders = {path.relative_to(CHECKOUT).parts[0] for path in repository_files() if path.suffix == ".py"}
    assert set(PYPROJECT["tool"]["mypy"]["files"]) == folders - {"tests"}
    assert [name for name in PACKAGES if not (CHECKOUT / name / "py.typed").is_file()] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_declared(name: str) -> None:
    """Each package lists its public names once, and has every one of them."""
    package = importlib.import_module(name)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert len(set(package.__all__)) == len(package.__all__)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        pytest.param("verl_dump", HEAVY | {"fault_injection", "numpy", "pytest"}, id="writer"),
        pytest.param("fault_injection", HEAVY, id="fault-layer"),
        pytest.param("fault_injection.plugin", HEAVY, id="plugin"),
    ],
)
def test_import_brings_nothing_heavy(module: str, unwanted: set[str]) -> None:
    """An import loads neither a framework nor a test tool that its user did not ask for."""
    modules = modules_after(f"import {module}")
    assert module.partition(".")[0] in modules
    assert modules & unwanted == set()


@installed_only
def test_tests_run_against_the_wheel() -> None:
    """Under tox both packages come from the installed wheel, not from the source folder."""
    site = importlib.metadata.distribution("verl-dump").locate_file("")
    for package in (verl_dump, fault_injection):
        assert package.__file__ is not None
        assert Path(package.__file__).parent.parent.samefile(str(site))
    assert not Path(str(site)).samefile(CHECKOUT)


@installed_only
def test_wheel_holds_the_packages_and_nothing_else() -> None:
    """The wheel ships every file of the packages, the contract and the type markers among them, and no other."""
    source = {
        path.relative_to(CHECKOUT).as_posix()
        for path in repository_files()
        if path.relative_to(CHECKOUT).parts[0] in PACKAGES
    }
    files = {path.as_posix() for path in importlib.metadata.files("verl-dump") or []}
    shipped = {name for name in files if name.partition("/")[0] in PACKAGES and not name.endswith(".pyc")}
    assert shipped == source
    assert {name for name in shipped if name.startswith("fault_injection/contract/")}
    top = {name.partition("/")[0] for name in files if not name.startswith("..")}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


@installed_only
def test_wheel_carries_its_license_and_entry_points() -> None:
    """The wheel has the licence text, the command and the pytest plugin."""
    wheel = importlib.metadata.distribution("verl-dump")
    text = wheel.read_text("licenses/LICENSE")
    assert text is not None
    assert text == (CHECKOUT / "LICENSE").read_text(encoding="utf-8")
    assert {(entry.group, entry.name) for entry in wheel.entry_points} == {
        ("console_scripts", "verl-dump"),
        ("pytest11", "verl_dump"),
    }
    assert all(entry.load() for entry in wheel.entry_points)
