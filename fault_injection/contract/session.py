"""The contract within one pytest run: scenarios are run when a law first asks for them, and kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fault_injection.contract.key import CONTRACT
from fault_injection.crew import Crew, UnitResult
from fault_injection.engine import claimed_laws, driven_by, is_offered, probe, units_for
from fault_injection.extent import Extent
from fault_injection.lacking import sort_out
from fault_injection.laws import GROUPS, LAWS
from fault_injection.profiles import choose_profile, seed_of
from fault_injection.report import Report, replay_command
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, Subject, load_subject
from fault_injection.targets.errors import TargetError
from fault_injection.verdict import Verdict, verdicts_of
from fault_injection.wire import Depth


@dataclass
class Contract:
    """The contract on one subject.

    Args:
        spec: where the subject comes from.
        subject: the subject.
        seed: chooses the batches.
        depth: how far examples go.
        extent: how much of the contract is run.
    """

    spec: Spec
    subject: Subject
    seed: int
    depth: Depth
    extent: Extent = Extent.WHOLE
    trials: int = 0
    _results: dict[str, tuple[UnitResult, ...]] = field(default_factory=dict)
    _driven: frozenset[str] | None = None

    def verdict(self, law: str, scenario: str) -> Verdict:
        """The verdict of a law over the trials of one scenario, which are run if they have not been.

        Args:
            law: its identifier.
            scenario: the name of the scenario.
        """
        claimed = claimed_laws(self.subject)
        offered = self.subject.features | self.depth.features
        if law not in claimed or not is_offered(SCENARIOS[scenario], offered):
            return verdicts_of(self.subject, frozenset({law}), ())[0]
        if scenario not in self._results:
            crew = Crew(self.spec, self.seed, self.depth)
            if self._driven is None:
                self._driven = self._probed(crew)
            every = units_for(self.subject, claimed, extent=self.extent, seed=self.seed, depth=self.depth)
            units = tuple(unit for unit in every if unit.scenario == scenario and scenario in self._driven)
            # What this machine lacks is a test that is skipped.
            self._results[scenario] = crew.run(sort_out(units), claimed)
            self.trials += sum(len(each.results) for each in self._results[scenario])
        return verdicts_of(self.subject, frozenset({law}), self._results[scenario])[0]

    def require(self, law: str, scenario: str) -> int:
        """Fail the test where the law is violated; skip it where the law is not claimed.

        Args:
            law: its identifier.
            scenario: the name of the scenario.

        Returns:
            The number of trials by which it was judged.
        """
        verdict = self.verdict(law, scenario)
        if verdict.status in {"not claimed", "skipped"}:
            pytest.skip(f"{law} {verdict.status}: {verdict.reason}")
        if verdict.status == "violated":
            report = Report(self.spec, self.subject.label, self.seed, (verdict,), verdict.trials, 0.0)
            lines = [
                f"{law} is violated in {verdict.violated} of {verdict.trials} trials: {LAWS[law].sentence}"
            ]
            for found in verdict.violations:
                lines += [f"  {found.message}", f"    {replay_command(report, law, found)}"]
            pytest.fail("\n".join(lines), pytrace=False)
        return verdict.trials

    def _probed(self, crew: Crew) -> frozenset[str]:
        """The scenarios that see what the subject writes."""
        try:
            return driven_by(self.subject, None, seen=probe(crew, self.subject))
        except TargetError as error:
            pytest.exit(f"verl-dump: {error}", returncode=2)


def contract_of(config: pytest.Config) -> Contract:
    """The contract of a pytest run, made at the first call.

    Args:
        config: the configuration of the run.

    Raises:
        TargetError: the target cannot be loaded.
    """
    if CONTRACT not in config.stash:
        spec = _spec(config)
        profile = choose_profile(config.getoption("dump_profile"))
        depth = Depth(
            profile.examples,
            config.getoption("dump_torch"),
            config.getoption("dump_readers"),
            preemptions=profile.extent.preemptions,
            schedules=profile.schedules,
        )
        seed = seed_of(profile, config.getoption("dump_seed"))
        config.stash[CONTRACT] = Contract(spec, load_subject(spec), seed, depth, profile.extent)
    contract: Contract = config.stash[CONTRACT]
    return contract


def cases(group: str) -> list[object]:
    """The parameters of a group's test: each law with each scenario that bears on it.

    Args:
        group: a key of `GROUPS`.
    """
    return [
        pytest.param(law, scenario.name, marks=pytest.mark.law(law), id=f"{law}-{scenario.name}")
        for law in LAWS
        if law.rstrip("0123456789") == group and group in GROUPS
        for scenario in SCENARIOS.values()
        if law in scenario.laws
    ]


def _spec(config: pytest.Config) -> Spec:
    target, source = config.getoption("dump_target"), config.getoption("dump_source")
    name = config.getoption("dump_class")
    if source is None:
        if name:
            raise TargetError("--dump-class goes with --dump-source")
        if target == "":
            raise TargetError("--dump-target is empty; name a target, or leave the option out")
        return Spec(target or DEFAULT)
    if target:
        raise TargetError("give --dump-target or --dump-source, not both")
    return Spec(source, source=True, class_name=name)
