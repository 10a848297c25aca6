"""Subjects: what is put under test, named by text so that every process of a run can make it for itself."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fault_injection.laws import LAWS
from fault_injection.oracle.policies import DEFAULTS, Policies
from fault_injection.targets import base
from fault_injection.targets.base import Target
from fault_injection.targets.errors import TargetError, one_line
from fault_injection.targets.fit import FitTarget, drives_reference
from fault_injection.ways import WAYS

DEFAULT = "verl_dump.trainer:ReferenceTrainer"
"""The reference writer, as a trainer with verl's dump surface."""


@dataclass(frozen=True)
class Spec:
    """Where a subject comes from.

    Args:
        location: `package.module:Name`, `path/file.py:Name`, or for a source target a path.
        source: whether the class is read out of the source without importing it.
        class_name: for a source target, the class.
    """

    location: str
    source: bool = False
    class_name: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command-line arguments that name the subject."""
        if not self.source:
            return () if self.location == DEFAULT else (self.location,)
        return ("--source", self.location, *(("--class", self.class_name) if self.class_name else ()))


@dataclass(frozen=True)
class Subject:
    """A writer under test.

    Args:
        label: how reports name it.
        make: makes a fresh target.
        asynchronous: whether the laws of the queue apply.
        fit: the driver of its `fit()`, or None where it has none.
        writes: whether it is driven as a writer, batch by batch.
        capabilities: what it claims.
        disclaims: the laws it does not promise.
        policies: what it declares to make of values that JSON cannot hold.
    """

    label: str
    make: Callable[[], Target]
    asynchronous: bool
    fit: type[FitTarget] | None
    capabilities: frozenset[str]
    disclaims: frozenset[str]
    policies: Policies = DEFAULTS
    writes: bool = True

    @property
    def features(self) -> frozenset[str]:
        """What scenarios may need of it."""
        kinds = {"asynchronous"} if self.asynchronous else set()
        return self.capabilities | kinds | _of_fit(self.fit) | ({"writes"} if self.writes else set())


def _of_fit(fit: type[FitTarget] | None) -> set[str]:
    if fit is None:
        return set()
    features = {"fit"} | {f"way-{way.name}" for way in WAYS if way.name not in fit.absent}
    if fit.coroutine:
        features.add("coroutine")
    if fit.validates_several:
        features.add("validates-several")
    return features


def load_subject(spec: Spec) -> Subject:
    """Load a subject.

    Args:
        spec: where it comes from.

    Returns:
        The subject.

    Raises:
        TargetError: it cannot be found, loaded, or is no writer; one line says why and what to do.
    """
    if spec.source:
        from fault_injection.targets.source import load_class

        cls = load_class(spec.location, spec.class_name)
        return _of_surface(cls, str(getattr(cls, "dump_source_label", spec.location)))
    if is_verl(spec.location):
        from fault_injection.targets.verl import adapters

        name = spec.location.partition(":")[2]
        if not name:
            raise TargetError(
                f"verl stands for several trainers: {', '.join(adapters())}; name one as verl:NAME"
            )
        return _of_class(adapters(name)[name], spec.location)
    from fault_injection.targets.load import load_object

    found = load_object(spec.location)
    if not isinstance(found, type):
        raise TargetError(
            f"{spec.location} is a {type(found).__name__}, not a class; name the writer's class"
        )
    try:
        subject = _of_class(found, spec.location)
        subject.make()
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(
            f"{spec.location} cannot be made: {one_line(error)}; an object is made without arguments, or for verl's "
            "dump surface without __init__"
        ) from error
    return subject


@functools.lru_cache(maxsize=1)
def ready_subject(spec: Spec) -> Subject:
    """Load a subject to be driven in this process, with all that its trainer imports; once, and for the children too.

    Args:
        spec: where it comes from.

    Raises:
        TargetError: as for `load_subject`, or what the adapter of a trainer loads fails.
    """
    subject = load_subject(spec)
    if subject.fit is not None:
        try:
            subject.fit.load()
        except TargetError:
            raise
        except (Exception, SystemExit) as error:
            raise TargetError(
                f"{subject.label} cannot be driven: its load() raised {one_line(error)}"
            ) from error
    # What was imported stays: no collection has to look at it again, and no child to copy it.
    gc.freeze()
    return subject


def is_verl(location: str) -> bool:
    """Whether a target stands for the trainers of an installed verl (`verl`), or for one of them (`verl:NAME`)."""
    return location.partition(":")[0] == "verl"


def _of_class(found: type, label: str) -> Subject:
    if issubclass(found, Target):
        return _of_adapter(found, label)
    if base.has_surface(found):
        return _of_surface(found, label)
    raise TargetError(
        f"{label} is no writer: it has no _dump_generations() and is no fault_injection.Target; "
        "give a class with verl's dump surface, or an adapter (README, 'Any other writer')"
    )


def _of_adapter(cls: type[Target], label: str) -> Subject:
    fit = cls if issubclass(cls, FitTarget) else None
    if fit is not None and not isinstance(fit.absent, Mapping):
        raise TargetError(
            f"{label}: absent is no mapping; give the reason for each way, as {{'val-only': '...'}}"
        )
    if fit is not None and (unknown := sorted(set(fit.absent) - {way.name for way in WAYS})):
        known = ", ".join(way.name for way in WAYS)
        raise TargetError(f"{label} lacks {unknown[0]!r}, which is no way out; the ways out are {known}")
    return Subject(
        label,
        cls,
        cls.asynchronous,
        fit,
        _claims(cls.capabilities, label),
        _disclaims(cls.disclaims, label),
        _policies(cls.policies, label),
        # An adapter of a fit() need not drive the writer by itself.
        fit is None or cls.dump is not Target.dump,
    )


def _of_surface(cls: type, label: str) -> Subject:
    claims = _claims(getattr(cls, "dump_capabilities", frozenset()), label)
    disclaims = _disclaims(getattr(cls, "dump_disclaims", frozenset()), label)
    fit = drives_reference(cls) if base.has_reference_fit(cls) else None
    make = partial(fit or base.SurfaceTarget, cls)
    policies = _policies(getattr(cls, "dump_policies", {}), label)
    return Subject(label, make, base.is_asynchronous(cls), fit, claims, disclaims, policies)


def _policies(declared: Mapping[str, Any], label: str) -> Policies:
    try:
        return Policies(**declared)
    except (TypeError, ValueError) as error:
        raise TargetError(f"{label} declares a policy that there is not: {error}") from None


def _names(given: Any, what: str, label: str) -> frozenset[str]:
    if not isinstance(given, (set, frozenset, list, tuple)) or not all(
        isinstance(each, str) for each in given
    ):
        raise TargetError(f"{label} {what} {given!r:.80}; give a set of names such as frozenset({{'Q7'}})")
    return frozenset(given)


def _disclaims(given: Any, label: str) -> frozenset[str]:
    disclaimed = _names(given, "disclaims", label)
    unknown = sorted(set(disclaimed) - LAWS.keys())
    if unknown:
        raise TargetError(f"{label} disclaims {unknown[0]!r}, which is no law; give a set such as {{'Q7'}}")
    return disclaimed


def _claims(given: Any, label: str) -> frozenset[str]:
    claimed = _names(given, "claims", label)
    unknown = sorted(set(claimed) - base.CAPABILITIES.keys())
    if unknown:
        known = ", ".join(base.CAPABILITIES)
        raise TargetError(
            f"{label} claims the unknown capability {unknown[0]!r}; the capabilities are {known}"
        )
    return claimed
