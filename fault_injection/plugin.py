"""The pytest plugin: options, the `law` marker and the header of the contract.

It is loaded in every suite of an environment that has the package, so it imports nothing until the contract is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fault_injection.contract.session import Contract

_OPTIONS = ("dump_target", "dump_source", "dump_class", "dump_law", "dump_seed", "dump_profile")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the contract."""
    group = parser.getgroup(
        "verl-dump", "the contract of generation dumps (pytest --pyargs fault_injection.contract)"
    )
    group.addoption(
        "--dump-target", metavar="TARGET", help="package.module:Class or path/file.py:Class to judge"
    )
    group.addoption(
        "--dump-source", metavar="PATH", help="read the class out of a checkout, a wheel or a file instead"
    )
    group.addoption("--dump-class", metavar="NAME", help="with --dump-source: the class")
    group.addoption(
        "--dump-law", action="append", metavar="LAW", help="only tests of this law or group; repeatable"
    )
    group.addoption("--dump-seed", type=int, metavar="N", help="chooses the batches (default 0)")
    group.addoption(
        "--dump-profile", metavar="NAME", help="how much is run: ci (the default), quick, dev or nightly"
    )
    group.addoption("--dump-torch", action="store_true", help="hand over tensors too (law S6)")
    group.addoption(
        "--dump-readers",
        action="store_true",
        help="read back with pandas, pyarrow, datasets, polars, duckdb too (law S9)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "law(identifier): the test belongs to this law of the contract")


def _is_used(config: pytest.Config) -> bool:
    asked = any(config.getoption(option) is not None for option in _OPTIONS)
    return asked or any("fault_injection" in argument for argument in config.args)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the target before anything else, so that one that cannot be loaded ends the run with one line."""
    if not _is_used(session.config):
        return
    from fault_injection.contract.session import contract_of
    from fault_injection.targets.errors import TargetError

    try:
        contract_of(session.config)
    except TargetError as error:
        pytest.exit(f"verl-dump: {error}", returncode=2)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is judged, and with what; nothing where the contract is not used."""
    if not _is_used(config):
        return []
    from fault_injection.contract.session import contract_of
    from fault_injection.report import header

    contract = contract_of(config)
    return [f"verl-dump: {header(contract.subject.label, contract.seed)}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests of the laws that `--dump-law` names; tests without a law are not touched."""
    if not config.getoption("dump_law"):
        return
    from fault_injection.laws import UnknownLawError, choose_laws

    try:
        chosen = choose_laws(config.getoption("dump_law")) or frozenset()
    except UnknownLawError as error:
        raise pytest.UsageError(f"--dump-law: {error}") from None
    keep: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        laws = {str(argument) for mark in item.iter_markers("law") for argument in mark.args}
        (keep if not laws or laws & chosen else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = keep


@pytest.fixture(scope="session")
def dump_contract(pytestconfig: pytest.Config) -> Contract:
    """The contract on the target of this run; each scenario is run once, when the first law asks for it."""
    from fault_injection.contract.session import contract_of

    return contract_of(pytestconfig)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell the number of trials behind the verdicts."""
    from fault_injection.contract.key import CONTRACT

    contract = config.stash.get(CONTRACT, None)
    if contract is not None and contract.trials:
        terminalreporter.write_line(
            f"verl-dump: {contract.subject.label}: {contract.trials:,} trial{'s' * (contract.trials != 1)}"
        )
