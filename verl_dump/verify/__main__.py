"""`python -m verl_dump.verify DIR`."""

from verl_dump.verify.command import main

if __name__ == "__main__":
    raise SystemExit(main())
