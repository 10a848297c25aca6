"""Makes docs/exits.json and docs/exits.md anew: `python benchmarks/exits.py` in the environment of `tox -e verl`.

It drives the reference trainers and verl's own through every way out of `fit()`, and two of them in Ray's actors as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fault_injection import docs
from fault_injection.docs_exits import SOURCE
from fault_injection.targets.verl import ADAPTERS
from fault_injection.ways import WAYS

REFERENCE = ("verl_dump.trainer:ReferenceTrainer", "verl_dump.trainer:AsyncReferenceTrainer")
# An actor of verl's takes ten seconds to import it.
IN_ACTORS = {
    "verl_dump.trainer:ReferenceTrainer": (),
    "verl:RayPPOTrainer": ("--profile", "dev", "--seed", "0"),
}
RAY = ",".join(way.law for way in WAYS if way.place == "ray")


def reports_of(*words: str) -> list[dict[str, Any]]:
    """The JSON reports of one run of the command.

    Args:
        words: what to check, and how.

    Raises:
        SystemExit: the run itself failed.
    """
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "report.json")
        command = [sys.executable, "-m", "fault_injection.cli", "check", "-q", *words, "--json", str(file)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode not in {0, 1}:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
        report = json.loads(file.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = report.get("reports", [report])
    return found


def main() -> None:
    """Run everything, or with `--only TARGET` one target, and write the reports and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="run this target alone and keep what is known of the others")
    only = parser.parse_args().only
    stored = json.loads(SOURCE.read_text(encoding="utf-8"))["reports"] if only else []
    known = {report["target"]: report for report in stored}
    for target in [only] if only else [*REFERENCE, "verl"]:
        for report in reports_of(target, "--law", "X"):
            known[report["target"]] = report
    for target, options in IN_ACTORS.items():
        if only in {None, target}:
            (report,) = reports_of(target, "--ray", "--law", RAY, *options)
            known[target]["exits"] += report["exits"]
    order = [*REFERENCE, *(f"verl:{name}" for name in ADAPTERS)]
    reports = [known[target] for target in order if target in known]
    kept = ("target", "versions", "seed", "exits")
    value = {"format": 1, "reports": [{name: report[name] for name in kept} for report in reports]}
    SOURCE.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    docs.main(["exits"])


if __name__ == "__main__":
    main()
