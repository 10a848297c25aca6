"""The engine: verdicts on whole writers, good and bad ones, and on targets that cannot be judged at all."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from fault_injection import engine, scratch
from fault_injection.crew import Crew, HarnessError, Pool, UnitResult
from fault_injection.engine import check, claimed_laws, units_for
from fault_injection.extent import Extent
from fault_injection.fault import Fault
from fault_injection.laws import LAWS
from fault_injection.mechanisms import kernel
from fault_injection.report import Report, as_json
from fault_injection.scenario import Family, Unit
from fault_injection.scenarios import SCENARIOS
from fault_injection.scratch import scratch_directory
from fault_injection.subject import DEFAULT, Spec, load_subject
from fault_injection.targets.errors import TargetError
from fault_injection.verdict import Verdict, verdicts_of

STEP = 7_000_001

WRITER = '''
import ctypes, json, os, subprocess, sys, threading


class Writer:
    """Writes within the call: a temporary file, moved into place, removed again when that fails."""

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        step = self.global_steps
        path = os.path.join(dump_path, f"{step}.jsonl")
        columns = {"input": inputs, "output": outputs, "gts": gts, "score": scores, "step": [step] * len(inputs)}
        columns.update(reward_extra_infos_dict)
        text = "".join(
            json.dumps(dict(zip(columns, row)), default=lambda array: array.tolist()) + chr(10)
            for row in zip(*columns.values())
        )
        try:
            os.makedirs(dump_path, exist_ok=True)
            self.write(path, text)
        except Exception as error:
            raise OSError(f"dump of step {step} to {path} failed") from error

    def write(self, path, text):
        temp = path + ".tmp"
        try:
            self.put(temp, text)
            os.replace(temp, path)
        except BaseException:
            for _ in range(2):
                try:
                    os.unlink(temp)
                except OSError:
                    pass
            raise

    def put(self, path, text):
        with open(path, "w") as file:
            file.write(text)


class InPlace(Writer):
    def write(self, path, text):
        self.put(path, text)


class Swallows(Writer):
    def write(self, path, text):
        try:
            super().write(path, text)
        except OSError:
            pass


class Prints(Writer):
    def put(self, path, text):
        print("x" * 100_000)
        os.write(1, b"\\x80\\x04 no pickle")
        sys.stderr.write("noise\\n")
        super().put(path, text)


class Hangs(Writer):
    def _shutdown_dump_executor(self):
        threading.Event().wait()


class HangsWhenFull(Writer):
    def _shutdown_dump_executor(self):
        if getattr(self, "failed", False):
            threading.Event().wait()

    def put(self, path, text):
        try:
            super().put(path, text)
        except OSError:
            self.failed = True
            raise


class Exits(Writer):
    def put(self, path, text):
        os.write(2, b"a line\\nthe last line\\n")
        os._exit(3)


class Killed(Writer):
    def put(self, path, text):
        os.kill(os.getpid(), 9)


class NeedsConfig(Writer):
    def put(self, path, text):
        super().put(path, self.config.prefix + text)


class NeedsConfigToStart(Writer):
    def _init_dump_executor(self):
        self.config.start()


class ByCommand(Writer):
    def put(self, path, text):
        subprocess.run(["tee", path], input=text.encode(), stdout=subprocess.DEVNULL, check=True)


class ByLibrary(Writer):
    def put(self, path, text):
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        file = ctypes.c_void_p(libc.fopen(path.encode(), b"w"))
        libc.fwrite(text.encode(), 1, len(text.encode()), file)
        libc.fclose(file)


class WrongClaim(Writer):
    dump_capabilities = frozenset({"fast"})


class WrongDisclaim(Writer):
    dump_disclaims = "Q7"


class Disclaims(InPlace):
    dump_disclaims = frozenset({"D2", "D3"})


class NoWriter:
    pass


function = print
'''


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with small writers in it."""
    file = tmp_path_factory.mktemp("writers") / "writers.py"
    file.write_text(textwrap.dedent(WRITER))
    return file


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scratch directories are made here, so that one that is left behind is found."""
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch.os.path, "isdir", lambda path: path != "/dev/shm" and os.path.exists(path))
    return tmp_path


def run(writers: Path, name: str, scenario: str = "restarted", **options: object) -> dict[str, Verdict]:
    """The verdicts on a writer in one scenario, by law."""
    spec = Spec(f"{writers}:{name}")
    verdicts = check(spec, load_subject(spec), scenario=scenario, **options).verdicts
    return {verdict.law: verdict for verdict in verdicts}


def swept(writers: Path, name: str, laws: frozenset[str]) -> dict[str, Verdict]:
    """The verdicts on a writer over older files, with a full disk from every write, open, rename and close on."""
    spec = Spec(f"{writers}:{name}")
    families = [Family(op, Fault("ENOSPC"), stays=True) for op in ("write", "open", "rename", "close")]
    units = (Unit("over-older", plan="none"), *(Unit("over-older", family=family) for family in families))
    results = Crew(spec, 0, size=1).run(units, laws)
    return {verdict.law: verdict for verdict in verdicts_of(load_subject(spec), laws, results)}


def refusal(writers: Path, name: str) -> str:
    """The one line with which a target is refused."""
    with pytest.raises(TargetError) as caught:
        run(writers, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_correct_writer_holds_the_laws_it_was_tried_by(writers: Path) -> None:
    """A small correct writer violates nothing, on a healthy disk and with errors at its operations."""
    verdicts = swept(writers, "Writer", SCENARIOS["over-older"].laws)
    assert {verdict.status for verdict in verdicts.values()} == {"holds"}
    assert verdicts.keys() == SCENARIOS["over-older"].laws
    assert verdicts["E1"].trials >= 8


def test_a_writer_that_writes_in_place_is_caught(writers: Path) -> None:
    """A writer that writes under the final name violates D2 and D3, with plans that replay it."""
    verdicts = swept(writers, "InPlace", frozenset({"D2", "D3", "E1"}))
    assert verdicts["D2"].status == verdicts["D3"].status == "violated"
    assert verdicts["E1"].status == "holds"
    found = verdicts["D2"].violations[0]
    spec = Spec(f"{writers}:InPlace")
    result, history = Crew(spec, 0).replay(found.scenario, found.plan, frozenset({"D2"}))
    assert found.message in [violation.message for violation in result.violations]
    assert (history.scenario, history.plan) == (found.scenario, found.plan)


def test_a_writer_that_swallows_errors_is_caught(writers: Path) -> None:
    """A writer that tells nobody of a failure violates E1."""
    verdicts = swept(writers, "Swallows", frozenset({"E1", "D1"}))
    assert verdicts["E1"].status == "violated"
    assert "no call ever raised the failure" in verdicts["E1"].violations[0].message
    assert verdicts["D1"].status == "holds"


def test_what_a_target_prints_does_not_get_between_the_answers(writers: Path) -> None:
    """A target may print, write to descriptor 1 and to standard error as it likes."""
    assert run(writers, "Prints")["D1"].status == "holds"


def test_a_target_that_hangs_is_reported_and_the_run_goes_on(writers: Path) -> None:
    """A drain that never returns violates E8, whatever laws were asked for, and no other law is judged by it."""
    verdicts = run(writers, "Hangs", laws=frozenset({"D1"}))
    assert verdicts["E8"].status == "violated"
    assert verdicts["E8"].violations[0].message == "drain never returned"
    assert verdicts["D1"].status == "skipped"


def test_a_run_that_ends_early_gives_up_what_takes_long(writers: Path) -> None:
    """When who is told of the results has seen enough, a trial that hangs is given up, and its worker is replaced."""
    spec = Spec(f"{writers}:HangsWhenFull")
    hanging = Unit("over-older", family=Family("write", Fault("ENOSPC"), stays=True))
    healthy = Unit("over-older", plan="none")
    with Pool() as pool:
        crew = Crew(spec, 0, size=2, pool=pool)
        assert len(crew.run((healthy, healthy), frozenset({"D1"}))) == 2
        enough = crew.run((hanging, healthy), frozenset({"D1"}), lambda _: True)
        assert healthy in [result.unit for result in enough]
        again = crew.run((healthy,) * 4, frozenset({"D1"}))
    assert [len(result.results) for result in again] == [1] * 4


def test_a_worker_lost_in_a_hang_is_replaced(writers: Path) -> None:
    """A unit whose trial hung goes on from the next k in a fresh process, until too many hung."""
    spec = Spec(f"{writers}:HangsWhenFull")
    family = next(f for f in SCENARIOS["over-older"].menu.families if str(f) == "enospc-once-write")
    units = (Unit("over-older", family=family), Unit("over-older", plan="none"))
    broken, healthy = Crew(spec, 0, size=1).run(units, frozenset({"D2", "E8"}))
    assert [(result.plan, result.hung) for result in broken.results] == [
        ("write#1:ENOSPC", True),
        ("write#2:ENOSPC", True),
    ]
    assert broken.cut_short
    assert [(result.plan, result.hung) for result in healthy.results] == [("none", False)]


def test_a_target_that_ends_its_process_is_one_clear_error(writers: Path) -> None:
    """A target that exits or is killed takes its worker along: one line says so, with the last that it said."""
    text = refusal(writers, "Exits")
    assert "ended the process that it ran in (exit code 3, having said 'the last line')" in text
    assert "ended the process that it ran in (SIGKILL)" in refusal(writers, "Killed")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NeedsConfig", "cannot be driven: the call of dump 1 raised OSError: dump of step"),
        (
            "NeedsConfigToStart",
            "cannot be driven: starting it raised AttributeError: .* has no attribute 'config'",
        ),
        ("WrongClaim", "claims the unknown capability 'fast'; the capabilities are durable, deadline, warn"),
        ("WrongDisclaim", "disclaims .Q7.; give a set of names"),
        ("NoWriter", "is no writer: it has no _dump_generations"),
        ("function", "is not a class"),
        ("Wirter", "has no attribute 'Wirter'; did you mean Writer"),
    ],
)
def test_a_target_that_cannot_be_judged_is_refused(writers: Path, name: str, words: str) -> None:
    """What cannot be loaded, driven or seen is refused in one line that says why."""
    assert re.search(words, refusal(writers, name))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel mechanism is one of Linux")
@pytest.mark.parametrize("name", ["ByCommand", "ByLibrary"])
def test_a_target_that_only_the_kernel_sees_is_judged_by_it(
    writers: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer whose files C code or another process writes is judged through the kernel, or refused without that."""
    if "seccomp" not in kernel.missing():
        (verdict,) = run(writers, name, "restarted-through-the-kernel", laws=frozenset({"D2"})).values()
        assert (verdict.status, verdict.trials) == ("holds", 1)
    monkeypatch.setattr(
        kernel, "missing", lambda: {"seccomp": "kernel: no seccomp: not permitted (allow it)"}
    )
    text = refusal(writers, name)
    assert "in a way that the fault layer cannot see" in text
    assert "kernel: no seccomp" in text


def test_a_disclaimed_law_is_not_judged(writers: Path) -> None:
    """A law that the target does not promise is shown as not claimed, however it was broken."""
    verdicts = run(writers, "Disclaims")
    assert verdicts["D2"].status == "not claimed"
    assert "disclaimed" in verdicts["D2"].reason


def test_one_seed_gives_one_report() -> None:
    """The same seed gives the same report, but for the seconds; another seed gives other batches."""

    def story(seed: int) -> dict[str, object]:
        spec = Spec(DEFAULT)
        subject = load_subject(spec)
        units = (Unit("same-step", family=Family("write", Fault("ENOSPC"))), Unit("same-step", plan="none"))
        crew = Crew(spec, seed, size=1)
        results = crew.run(units, frozenset(LAWS))
        verdicts = verdicts_of(subject, frozenset(LAWS), results)
        _, history = crew.replay("same-step", "write#1:ENOSPC", frozenset(LAWS))
        value = as_json(Report(spec, subject.label, seed, verdicts, len(results), 0.0))
        return {"report": value, "rows": [getattr(event, "rows", None) for event in history.events]}

    first = story(5)
    assert first == story(5)
    assert first["rows"] != story(6)["rows"]


def test_the_scratch_directory_is_removed_on_success_and_on_error(writers: Path, shared: Path) -> None:
    """Nothing is left of a run, whether it ended with verdicts or with an error."""
    run(writers, "Writer")
    assert os.listdir(shared) == []
    refusal(writers, "Exits")
    assert os.listdir(shared) == []


def test_the_scratch_directory_is_removed_on_interrupt(writers: Path, shared: Path) -> None:
    """Ctrl-C in the middle of a run ends it with KeyboardInterrupt, and leaves neither files nor threads."""
    seen = threading.Event()

    def tell(_: UnitResult) -> None:
        if not seen.is_set():
            seen.set()
            os.kill(os.getpid(), signal.SIGINT)

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(writers, "Writer", "over-older", extent=Extent.FEW, tell=tell)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert seen.is_set()
    assert os.listdir(shared) == []


def test_a_scratch_directory_that_cannot_be_made_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no temporary directory can be made, one line says where and what to do."""

    def fails(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", fails)
    with (
        pytest.raises(TargetError, match=r"cannot be written \(Permission denied\); set TMPDIR"),
        scratch_directory(),
    ):
        pass


def test_a_defect_of_the_harness_is_told_as_one(writers: Path) -> None:
    """An error inside a worker that is not the target's comes up with its traceback."""
    spec = Spec(f"{writers}:Writer")
    with pytest.raises(HarnessError, match=r"(?s)in no-such-scenario-none:\n.*KeyError"):
        Crew(spec, 0, size=1).replay("no-such-scenario", "none", frozenset())


def test_results_come_in_the_order_of_the_units_and_a_run_can_be_cut(writers: Path) -> None:
    """Whichever worker is faster, results stand in the order asked for; who has seen enough ends the run."""
    crew = Crew(Spec(f"{writers}:Writer"), 0, size=2)
    units = tuple(Unit(name, plan="none") for name in ("three-dumps", "restarted", "over-older", "same-step"))
    assert [each.unit for each in crew.run(units, frozenset({"D2"}))] == list(units)
    told: list[UnitResult] = []

    def enough(result: UnitResult) -> bool:
        told.append(result)
        return True

    cut = Crew(Spec(f"{writers}:Writer"), 0, size=1).run(units, frozenset({"D2"}), enough)
    assert [each.unit for each in cut] == [units[0]]
    assert list(cut) == told


def test_a_subject_is_driven_through_what_it_has_and_no_more(writers: Path) -> None:
    """A synchronous writer claims no law of the queue, and no scenario that needs a background writer is run on it."""
    subject = load_subject(Spec(f"{writers}:Writer"))
    claimed = claimed_laws(subject)
    assert not any(law.startswith("Q") for law in claimed)
    assert {"D1", "E1", "E10"} <= claimed
    names = {unit.scenario for unit in units_for(subject, claimed)}
    assert "three-dumps" in names
    assert not names & {"stalled-before", "many-wait", "failing-training", "warned", "drain-deadline"}
    few = units_for(subject, claimed, extent=Extent.FEW)
    assert {unit.scenario for unit in few} == names
    assert len(few) < len(units_for(subject, claimed))


def test_what_needs_ray_is_judged_by_the_same_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that need Ray are run by a crew of one, after all others, and by the laws of the whole run."""
    runs: list[tuple[object, ...]] = []

    class Noting:
        def __init__(self, spec, seed, depth, size=None, pool=None):
            self.size = size

        def run(self, units, laws, *rest):
            runs.append((self.size, units, laws))
            return ()

    home, ray = Unit("three-dumps"), Unit("exit-ray-return-one")
    monkeypatch.setattr(engine, "Crew", Noting)
    monkeypatch.setattr(engine, "probe", lambda crew, subject: True)
    monkeypatch.setattr(engine, "units_for", lambda *_, **__: (home, ray))
    monkeypatch.setattr(engine, "sort_out", lambda units, miss: units)
    laws = frozenset({"D1", "X20"})
    engine.check(Spec(DEFAULT), load_subject(Spec(DEFAULT)), laws=laws)
    assert runs == [(None, (home,), laws), (1, (ray,), laws)]
