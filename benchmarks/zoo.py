"""Makes docs/zoo.json and docs/zoo.md anew: `python -m benchmarks.zoo` in a checkout, where the tests can run.

The table is made by the tests themselves, in the run that `tox -e zoo` makes too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the zoo and write the page; what pytest is given besides comes from the command line.

    Returns:
        The exit code of pytest.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "zoo",
        "tests/test_zoo.py",
    ]
    environment = {**os.environ, "VERL_DUMP_ZOO": str(CHECKOUT / "docs")}
    return subprocess.run([*command, *sys.argv[1:]], cwd=CHECKOUT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
