"""Faults for generation dumps: plans, mechanisms, the contract's laws, and what judges a writer by them."""

from __future__ import annotations

from fault_injection.course import Course
from fault_injection.fault import CATALOGUE, Fault
from fault_injection.gate import Gate
from fault_injection.injector import Injector, Strike
from fault_injection.laws import LAWS, Law
from fault_injection.op import OPS, Op
from fault_injection.plan import Plan, PlanError, Rule, Span
from fault_injection.targets.base import Batch, Target
from fault_injection.targets.errors import TargetError
from fault_injection.targets.fit import FitTarget

__all__ = [
    "CATALOGUE",
    "LAWS",
    "OPS",
    "Batch",
    "Course",
    "Fault",
    "FitTarget",
    "Gate",
    "Injector",
    "Law",
    "Op",
    "Plan",
    "PlanError",
    "Rule",
    "Span",
    "Strike",
    "Target",
    "TargetError",
]
