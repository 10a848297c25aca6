"""The command `verl-dump`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import NoReturn

from fault_injection import engine
from fault_injection.crash.replay import PREFIX as POWER
from fault_injection.crash.replay import PowerPlan
from fault_injection.crew import Crew, Pool, UnitResult
from fault_injection.examples import PREFIX
from fault_injection.interleave.plan import PREFIX as SWITCH
from fault_injection.interleave.plan import SwitchPlan
from fault_injection.lacking import Lack
from fault_injection.laws import LAWS, UnknownLawError, choose_laws
from fault_injection.mechanisms import disk, kernel, memory
from fault_injection.options import UNUSABLE, parser
from fault_injection.plan import Plan, PlanError
from fault_injection.profiles import choose_profile, seed_of
from fault_injection.report import Report, as_story, as_text, header, write_json
from fault_injection.scenario import Scenario
from fault_injection.scenarios import SCENARIOS
from fault_injection.subject import DEFAULT, Spec, is_verl, load_subject
from fault_injection.sweep import TrialResult
from fault_injection.targets.errors import TargetError
from fault_injection.wire import Depth
from verl_dump.verify import command as verify

OK, VIOLATED = 0, 1
"""Exit codes: no law is violated; one is. All else that ends a run is `UNUSABLE`, a report that cannot be written too."""
_NEEDED = ("hypothesis", "numpy", "pyfakefs")
"""What a run cannot do without; the extra `check` brings it."""
_BEAT = 10.0
"""Seconds between two lines of progress where the output is no terminal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the words after `verl-dump`, by default those of the process.

    Returns:
        The exit code.
    """
    verify.open_streams()
    try:
        try:
            return _run_command(arguments)
        finally:
            # What is held back is written while it can still be said that it cannot.
            verify.say("", end="", flush=True)
    except verify.OutputError as error:
        print(f"verl-dump: {error}", file=sys.stderr)
        verify.drop_output()
        return UNUSABLE
    except (TargetError, PlanError, UnknownLawError) as error:
        print(f"verl-dump: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("verl-dump: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        verify.drop_output()
        return 141


def _run_command(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    with _terminable():
        return verify.run(options) if options.command == "verify" else _check(options)


def entry() -> NoReturn:
    """End the process with the command's exit code, even where a target left a thread that would keep it."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if any(not t.daemon for t in threading.enumerate() if t is not threading.main_thread()):
        os._exit(code)
    sys.exit(code)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM, as a scheduler sends it, end the run as any exception does: scratch files and workers go too."""

    def stop(*_: object) -> NoReturn:
        raise SystemExit(143)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _check(options: argparse.Namespace) -> int:
    _see_ground()
    laws = choose_laws(options.law)
    if laws is None and options.law:
        raise TargetError("--law is empty; name a law such as E2 or a group such as E")
    if options.quick and options.profile not in {None, "quick"}:
        raise TargetError(f"--quick is --profile quick; give it or --profile {options.profile}")
    profile = choose_profile("quick" if options.quick else options.profile)
    # A replay is of the run with the seed that it names, and of seed 0 where it names none.
    options.seed = (options.seed or 0) if options.plan is not None else seed_of(profile, options.seed)
    options.schedules, options.extent = profile.schedules, profile.extent
    options.examples = profile.examples if options.examples is None else options.examples
    if options.json == "":
        raise TargetError("--json is empty; name a file, or - for standard output")
    if options.json and options.json != "-":
        _see_writable(options.json)
    specs = _specs(options)
    options.lacks = set()
    if options.plan is not None:
        if options.json:
            raise TargetError("--json reports whole runs; leave --plan out")
        return max(_replay(spec, options, laws) for spec in specs)
    if options.scenario is not None:
        _see_bearing(_known_scenario(options.scenario), laws)
    # verl takes long to import: once a process is enough for all of its trainers.
    with ExitStack() as kept:
        pool = kept.enter_context(Pool()) if all(is_verl(spec.location) for spec in specs) else None
        reports = [_run(spec, options, laws, pool) for spec in specs]
    if options.json:
        try:
            write_json(reports, options.json)
        except BrokenPipeError:
            raise
        except OSError as error:
            message = f"--json {options.json} cannot be written: {error.strerror}"
            raise (verify.OutputError if options.json == "-" else TargetError)(message) from error
    if options.strict and options.lacks:
        print("verl-dump: --strict: a part of the run was left out, as said above", file=sys.stderr)
        return VIOLATED
    return VIOLATED if any(report.violated for report in reports) else OK


def _see_ground() -> None:
    """Refuse to begin where a run could not come to its end."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise TargetError("the working directory is gone; change to one that exists") from None
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise TargetError(
            f"check needs {' and '.join(missing)}, not installed here; pip install with the extra check brings "
            "all that it needs"
        )


def _miss(options: argparse.Namespace, lack: Lack) -> None:
    """Name what this machine lacks, once however many subjects need it."""
    if lack.line not in options.lacks:
        options.lacks.add(lack.line)
        print(f"verl-dump: {lack}", file=sys.stderr, flush=True)


def _run(spec: Spec, options: argparse.Namespace, laws: frozenset[str] | None, pool: Pool | None) -> Report:
    out = sys.stderr if options.json == "-" else sys.stdout
    subject = load_subject(spec)
    if not options.quiet:
        verify.say(header(subject.label, options.seed), out, flush=True)
    begin = time.monotonic()
    progress = _Progress(begin)
    with progress:
        checked = engine.check(
            spec,
            subject,
            seed=options.seed,
            laws=laws,
            scenario=options.scenario,
            extent=options.extent,
            shuffle=options.shuffle,
            depth=_depth(options),
            pool=pool,
            tell=progress.tell,
            plan=progress.plan,
            miss=lambda lack: _miss(options, lack),
        )
    seconds = time.monotonic() - begin
    report = Report(
        spec,
        subject.label,
        options.seed,
        checked.verdicts,
        checked.trials,
        seconds,
        checked.exits,
        checked.interleavings,
    )
    verify.say(as_text(report, quiet=options.quiet), out, flush=True)
    return report


def _replay(spec: Spec, options: argparse.Namespace, laws: frozenset[str] | None) -> int:
    name = options.scenario or "three-dumps"
    scenario = _known_scenario(name)
    plan = _plan(options.plan, scenario)
    subject = load_subject(spec)
    claimed = engine.claimed_laws(subject)
    depth = _depth(options)
    if missing := scenario.needs - subject.features - {"torch", "ray"}:
        raise TargetError(
            f"scenario {name} needs a target that is {', '.join(sorted(missing))}; {subject.label} is not"
        )
    if "ray" in scenario.needs and find_spec("ray") is None:
        raise TargetError(f"scenario {name} runs in Ray, which is not installed")
    judged_by = claimed & (laws or frozenset(LAWS))
    _see_bearing(scenario, laws)
    begin = time.monotonic()
    result, history = Crew(spec, options.seed, depth).replay(name, plan, judged_by & (scenario.laws | {"E8"}))
    if result is None:
        raise PlanError(
            f"plan {plan} struck nothing in scenario {name}: {subject.label} has no such operation there; "
            "--plan none shows those that it has"
        )
    verify.say(as_story(history))
    for violation in result.violations:
        verify.say(f"{violation.law} VIOLATED: {violation.message}")
    words = _in_words(result, judged_by & scenario.laws if laws else frozenset())
    verify.say(f"{subject.label}: {words}; 1 trial in {time.monotonic() - begin:.1f} s")
    return VIOLATED if result.violations else OK


def _in_words(result: TrialResult, asked: frozenset[str]) -> str:
    """What became of the laws in a replay; those that were asked for are named even where the trial does not bear on them."""
    violated = {violation.law for violation in result.violations}
    by = {
        "violated": [law for law in LAWS if law in violated],
        "held": [law for law in LAWS if law in result.laws and law not in violated],
        "not judged, since the trial does not bear on it:": [
            law for law in LAWS if law in asked and law not in {*result.laws, *violated}
        ],
    }
    return "; ".join(f"{how} {', '.join(some)}" for how, some in by.items() if some) or "no law was judged"


def _see_bearing(scenario: Scenario, laws: frozenset[str] | None) -> None:
    """Refuse a run that would judge nothing and end well."""
    if laws is not None and not laws & (scenario.laws | {"E8"}):
        bearing = ", ".join(law for law in LAWS if law in scenario.laws)
        raise TargetError(
            f"scenario {scenario.name} says nothing of the laws that were asked for; it bears on {bearing}"
        )


def _plan(text: str, scenario: Scenario) -> str:
    """The text of a plan, or of an example, once it is known to be one."""
    if scenario.place == "power" and text.startswith(POWER):
        return str(PowerPlan.parse(text))
    if scenario.place == "switch" and text.startswith(SWITCH):
        return str(SwitchPlan.parse(text))
    if scenario.place != "examples":
        if text.startswith(SWITCH):
            raise PlanError(f"scenario {scenario.name} takes plans such as write#1:ENOSPC, not a schedule")
        if text.startswith(POWER):
            raise PlanError(f"scenario {scenario.name} takes plans such as write#1:ENOSPC, not a crash state")
        if text.startswith(PREFIX):
            raise PlanError(f"scenario {scenario.name} takes plans such as write#1:ENOSPC, not an example")
        plan = Plan.parse(text)
        if scenario.mechanism == "memory":
            reason = memory.supports(plan)
        elif scenario.mechanism == "kernel":
            reason = kernel.supports(plan) or kernel.lacks(plan)
            if scenario.after is None and any(rule.fault.name in {"kill", "torn"} for rule in plan.rules):
                reason = "it kills the process, after which nobody goes on in this scenario; see killed-by-the-kernel"
        else:
            reason = disk.supports(plan, deadly=scenario.place == "fork")
        if reason:
            raise PlanError(f"plan {plan} cannot be run in scenario {scenario.name}: {reason}")
        return str(plan)
    if not text.startswith(PREFIX):
        raise PlanError(
            f"scenario {scenario.name} takes an example of a report ({PREFIX}...), not a plan of faults"
        )
    return text


def _depth(options: argparse.Namespace) -> Depth:
    if options.examples < 1:
        raise TargetError(f"--examples {options.examples}: give a number from 1")
    if options.torch and find_spec("torch") is None:
        raise TargetError("--torch: torch is not installed; install it or leave the option out")
    if options.ray and find_spec("ray") is None:
        raise TargetError("--ray: ray is not installed; install it or leave the option out")
    return Depth(options.examples, options.torch, options.readers, options.ray, schedules=options.schedules)


def _specs(options: argparse.Namespace) -> list[Spec]:
    if options.source is None:
        if options.class_name:
            raise TargetError("--class goes with --source; name a class to import as package.module:Class")
        if options.target == "":
            raise TargetError("TARGET is empty; name a class, or leave it out for the reference writer")
        if options.target == "verl":
            from fault_injection.targets.verl import adapters

            return [Spec(f"verl:{name}") for name in adapters()]
        return [Spec(options.target or DEFAULT)]
    if options.target:
        raise TargetError("give a TARGET to import or --source PATH to read, not both")
    from fault_injection.targets.source import find_classes, load_class

    if options.class_name:
        load_class(options.source, options.class_name)
        return [Spec(options.source, source=True, class_name=options.class_name)]
    found = find_classes(options.source)
    names = [each.name for each in found]
    return [
        Spec(
            options.source,
            source=True,
            class_name=each.name if names.count(each.name) == 1 else f"{each.module}:{each.name}",
        )
        for each in found
    ]


def _known_scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise TargetError(f"unknown scenario {name!r}; the scenarios are {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def _see_writable(path: str) -> None:
    """Refuse a report file that cannot be written before the run and not after it."""
    directory = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise TargetError(f"--json {path} is a directory; name a file")
    if not os.path.isdir(directory):
        raise TargetError(f"--json {path}: there is no directory {directory}; make it or name another file")
    if not os.access(path if os.path.exists(path) else directory, os.W_OK):
        raise TargetError(f"--json {path} cannot be written: permission denied; name another file")


class _Progress:
    """One line that is written over on a terminal, and now and then a line elsewhere; on stderr."""

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._shown = begin
        self._units = self._done = self._trials = 0
        self._broken: set[str] = set()
        self._terminal = sys.stderr.isatty()

    def plan(self, units: int) -> None:
        """Say how many units there will be."""
        self._units = units

    def tell(self, result: UnitResult) -> None:
        """One more unit is done."""
        self._done += 1
        self._trials += sum(each.states for each in result.results)
        self._broken |= {v.law for each in result.results for v in each.violations}
        now = time.monotonic()
        if now - self._shown < (0.1 if self._terminal else _BEAT):
            return
        self._shown = now
        percent = 100 * self._done // max(self._units, 1)
        broken = (
            f", violated: {', '.join(law for law in LAWS if law in self._broken)}" if self._broken else ""
        )
        text = f"{percent:>3} %  {self._trials:,} trials in {now - self._begin:.0f} s{broken}"
        print(
            f"\r\x1b[K{text}" if self._terminal else text,
            end="" if self._terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        # The line is taken away, also from above an error.
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    entry()
