"""Scenarios of group X: `fit()` is left in one of its ways, with dumps pending."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable

from fault_injection.course import Course
from fault_injection.plan import Plan
from fault_injection.scenario import Menu, Scenario
from fault_injection.targets.errors import TargetError, one_line
from fault_injection.targets.fit import FitTarget
from fault_injection.trial import Trial
from fault_injection.ways import END, WAYS, Way, needs_of, scenario_name, writes_of

_EXIT_DEADLINE = 0.2
"""Seconds that targets which claim `deadline` may hold the end of a process."""


def leave(way: Way, pending: str, *, releases: bool = False) -> Callable[[Trial, int], None]:
    """A scenario's course of events: `fit()` runs and is left.

    Args:
        way: the way out.
        pending: a key of `fault_injection.ways.PENDING`.
        releases: let the disk go on just before the way out.
    """

    def run(trial: Trial, seed: int) -> None:
        target = trial.target
        if not isinstance(target, FitTarget):
            return
        course = Course(trial, seed, way, pending, releases=releases)
        _prepare(target, course)
        trial.mark("due", str(course.due))
        trial.keeps = way.place != "here"
        if way.training == "undrained":
            target.open()
            _undrained(trial, target, course)
            return
        if way.name == "thread":
            _in_thread(trial, target, course)
            return

        def fit() -> None:
            _complete(target.fit)

        with course.held():
            _fit(trial, fit, course)
            if way.name == "second-fit":
                course.grow()
                target.resume(course)
                _fit(trial, fit, course)

    return run


def _fit(trial: Trial, call: Callable[[], object], course: Course) -> None:
    failure = trial.run("fit", call)
    trial.observe_now()
    trial.mark("left")
    course.see_left(failed=failure is not None)


def _prepare(target: FitTarget, course: Course) -> None:
    try:
        target.prepare(course)
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"target {type(target).__name__} cannot be driven: its prepare(course) raised {one_line(error)}"
        ) from error


def _undrained(trial: Trial, target: FitTarget, course: Course) -> None:
    with course.held():
        try:
            _complete(target.validate)
        except Exception as error:
            if not course.handed_over:
                raise
            # A dump has raised, its own failure or an earlier one's; nobody catches it, and the process ends of it.
            trial.caught = error


def _in_thread(trial: Trial, target: FitTarget, course: Course) -> None:
    # The main thread is to end well, whatever happens in the other.
    trial.keeps = False
    raised: list[BaseException] = []

    def fit() -> None:
        try:
            _complete(target.fit)
        except BaseException as error:
            raised.append(error)
            raise

    def train() -> None:
        trial.caller = threading.current_thread()
        try:
            with course.held():
                _fit(trial, fit, course)
        except TargetError as refusal:
            trial.mark("refused", str(refusal))
        finally:
            course.reached.set()
        if raised:
            raise raised[0]

    threading.Thread(target=train, name="training").start()
    # The main thread does not end before the training has come to where it waits for that.
    course.reached.wait()


def _complete(call: Callable[[], object]) -> None:
    result = call()
    if inspect.iscoroutine(result):
        asyncio.run(result)


SCENARIOS = tuple(
    Scenario(
        scenario_name(way, pending),
        frozenset({way.law}),
        leave(way, pending),
        Menu(tuple(Plan.parse(plan) for plan in writes_of(way, pending).values())),
        needs=frozenset({"fit"}) | needs_of(way, pending),
        place=way.place,
        # A deadline that passes while the trial holds the disk would leave to later what is due at the return.
        exit_deadline=_EXIT_DEADLINE if way.data == END else None,
    )
    for way in WAYS
    for pending in way.pending
)
