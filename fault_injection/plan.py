"""Plans: which operations fail, and how. A plan's text is its replay; `repr` parses back to the same plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from fault_injection.fault import FILE_OPS, Fault, parse_fault
from fault_injection.op import OPS, Op


class PlanError(ValueError):
    """A plan's text that cannot be read, with what is wrong and what to write instead."""


@dataclass(frozen=True)
class Span:
    """Which of the matching operations are struck, counted from 1.

    Args:
        first: the first one struck.
        last: the last one struck, or None for no end.
        step: every how many, from the first on.
    """

    first: int
    last: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        if self.first < 1 or self.step < 1 or (self.last is not None and self.last < self.first):
            raise PlanError(f"span {self!r} is empty; count from 1, as in #3, #3+, #2..5 or #1+2")
        if self.last is not None and self.step != 1:
            raise PlanError("a span has an end (#2..5) or a step (#1+2), not both")

    def __contains__(self, count: object) -> bool:
        if not isinstance(count, int):
            return False
        inside = count >= self.first and (self.last is None or count <= self.last)
        return inside and (count - self.first) % self.step == 0

    def __str__(self) -> str:
        if self.last is None:
            return f"#{self.first}+" + (str(self.step) if self.step > 1 else "")
        return f"#{self.first}" if self.last == self.first else f"#{self.first}..{self.last}"

    __repr__ = __str__


@dataclass(frozen=True)
class Rule:
    """One rule of a plan: at these operations, this fault.

    Args:
        op: the kind of operation, `any` for every one on a file, or `bytes` for writes past a total.
        span: which of them.
        fault: what happens.
        glob: limits the rule to paths that match it (the whole relative path, or its last component).
        limit: for `bytes`, the number of bytes below the root that still fit.
    """

    op: str
    span: Span
    fault: Fault
    glob: str = ""
    limit: int = 0

    def __post_init__(self) -> None:
        applies = self.fault.kind.ops
        if self.op == "bytes":
            if not self.fault.kind.errno or "write" not in applies or self.fault.name == "lost":
                raise PlanError(
                    f"bytes>{self.limit} takes an error such as ENOSPC, EDQUOT or EFBIG, not {self.fault}"
                )
        elif self.op == "any":
            if not applies >= FILE_OPS:
                raise PlanError(
                    f"fault {self.fault.name} does not apply to any operation; name one of {_listed(applies)}"
                )
        elif self.op not in OPS:
            raise PlanError(
                f"unknown operation {self.op!r}; the operations are {', '.join(OPS)}, any and bytes>N"
            )
        elif self.op not in applies:
            raise PlanError(
                f"fault {self.fault.name} does not apply to {self.op}; it applies to {_listed(applies)}"
            )
        if any(c in self.glob for c in ";@"):
            raise PlanError(
                f"glob {self.glob!r} holds ';' or '@', which separate rules; use '?' for that character"
            )

    def matches(self, op: Op) -> bool:
        """Whether the rule is about this operation (its count aside)."""
        kind = "write" if self.op == "bytes" else self.op
        if op.kind != kind and (kind != "any" or op.kind not in FILE_OPS):
            return False
        if not self.glob:
            return True
        return any(
            fnmatchcase(name, self.glob)
            for path in (op.path, op.target)
            if path
            for name in (path, path.rpartition("/")[2])
        )

    def __str__(self) -> str:
        glob = f"{self.glob}@" if self.glob else ""
        if self.op == "bytes":
            span = "" if self.span == Span(1) else str(self.span)
            return f"{glob}bytes>{self.limit}{span}:{self.fault}"
        return f"{glob}{self.op}{self.span}:{self.fault}"

    __repr__ = __str__


@dataclass(frozen=True)
class Plan:
    """The rules of a trial; the first rule that strikes an operation decides.

    Args:
        rules: in order.
    """

    rules: tuple[Rule, ...] = field(default=())

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a plan from its text.

        Args:
            text: rules joined by `;`, for example `write#3+:ENOSPC` or `*.tmp@close#1:EIO`; empty or `none` for no fault.

        Returns:
            The plan.

        Raises:
            PlanError: the text is no plan; the message names the rule, what is wrong and what to write.
        """
        if text.strip() in {"", "none"}:
            return cls()
        return cls(tuple(_parse_rule(part) for part in text.split(";")))

    def __str__(self) -> str:
        return ";".join(map(str, self.rules)) or "none"

    __repr__ = __str__

    def __bool__(self) -> bool:
        return bool(self.rules)


def once(op: str, k: int, fault: Fault) -> Plan:
    """The plan that strikes the k-th operation of a kind, once."""
    return Plan((Rule(op, Span(k, k), fault),))


def persistent(op: str, k: int, fault: Fault) -> Plan:
    """The plan that strikes every operation of a kind from the k-th on."""
    return Plan((Rule(op, Span(k), fault),))


_SITE = re.compile(r"(?:bytes>(?P<limit>\d+)(?P<bspan>#.*)?|(?P<op>[a-z]+)(?P<span>#.*))", re.ASCII)
_SPAN = re.compile(r"#(?P<first>\d+)(?:\.\.(?P<last>\d+)|(?P<plus>\+)(?P<step>\d+)?)?", re.ASCII)


def _parse_rule(text: str) -> Rule:
    rule = text.strip()
    glob, at, rest = rule.rpartition("@")
    site, colon, fault = rest.partition(":")
    if not rule or not colon or (at and not glob.strip()):
        raise PlanError(f"plan rule {rule!r} is not of the form [GLOB@]OP#K:FAULT, such as write#3+:ENOSPC")
    match = _SITE.fullmatch(site.strip())
    if not match:
        raise PlanError(
            f"plan rule {rule!r}: {site.strip()!r} names no operations; write OP#3, OP#3+, OP#2..5, OP#1+2 or bytes>N"
        )
    try:
        parsed = parse_fault(fault)
        if match["limit"] is not None:
            span = _parse_span(match["bspan"]) if match["bspan"] else Span(1)
            return Rule("bytes", span, parsed, glob.strip(), int(match["limit"]))
        return Rule(match["op"], _parse_span(match["span"]), parsed, glob.strip())
    except ValueError as error:
        raise PlanError(f"plan rule {rule!r}: {error}") from None


def _parse_span(text: str) -> Span:
    match = _SPAN.fullmatch(text.strip())
    if not match:
        raise PlanError(f"{text!r} is no span; write #3, #3+, #2..5 or #1+2")
    first = int(match["first"])
    if match["plus"]:
        return Span(first, None, int(match["step"] or 1))
    return Span(first, int(match["last"] or first))


def _listed(ops: frozenset[str]) -> str:
    return ", ".join(op for op in OPS if op in ops)
