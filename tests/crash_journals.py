"""Journals told step by step, and Hypothesis strategies that make them, without a disk."""

from __future__ import annotations

from hypothesis import strategies as st

from fault_injection.crash.model import Disk
from fault_injection.crash.record import ROOT, Journal, Step
from fault_injection.crash.states import Enumeration, State

Script = list[tuple[str, str, str, int]]
"""What is done: a word, one or two names, and a number."""
NAMES = ("a", "b", "c")


class Teller:
    """Makes a journal of the calls that it gets, each of which is one that a file system would allow.

    Args:
        folder: whether everything happens in a directory that the run makes first.
    """

    def __init__(self, *, folder: bool = False) -> None:
        self.steps: list[Step] = []
        self.names: dict[str, int] = {}
        self.sizes: dict[int, int] = {}
        self.count = 1
        self.folder = ROOT
        if folder:
            self.folder, self.count = 1, 2
            self.note("mkdir", node=1, folder=ROOT, name="d")

    def note(self, kind: str, **fields: object) -> None:
        """One more step."""
        self.steps.append(Step(kind, len(self.steps) + 1, **fields))

    def create(self, name: str) -> None:
        """Make a file, unless there is one."""
        if name not in self.names:
            self.names[name], self.count = self.count, self.count + 1
            self.sizes[self.names[name]] = 0
            self.note("create", node=self.names[name], folder=self.folder, name=name)

    def write(self, name: str, data: bytes, offset: int | None = None) -> None:
        """Write to a file, at its end by default."""
        node = self.names[name]
        at = self.sizes[node] if offset is None else offset
        self.sizes[node] = max(self.sizes[node], at + len(data))
        self.note("write", node=node, offset=at, data=data)

    def resize(self, name: str, size: int) -> None:
        """Cut or extend a file."""
        self.sizes[self.names[name]] = size
        self.note("resize", node=self.names[name], offset=size)

    def sync(self, name: str) -> None:
        """Force a file to the disk."""
        self.note("sync", node=self.names[name])

    def lose(self, name: str) -> None:
        """A sync of a file fails and drops its data."""
        self.note("lose", node=self.names[name])

    def sync_folder(self, folder: int | None = None) -> None:
        """Force a directory to the disk."""
        self.note("sync", node=self.folder if folder is None else folder)

    def rename(self, old: str, new: str) -> None:
        """Move a name."""
        node = self.names.pop(old)
        self.names[new] = node
        self.note("rename", node=node, folder=self.folder, name=new, old_folder=self.folder, old_name=old)

    def remove(self, name: str) -> None:
        """Remove a name."""
        self.note("remove", node=self.names.pop(name), folder=self.folder, name=name)

    def journal(self) -> Journal:
        """What was told so far."""
        return Journal(folders=frozenset({ROOT, self.folder}), steps=tuple(self.steps))


def told(script: Script, *, end: str = "", folder: bool = False) -> Journal:
    """The journal of a script; what the names at hand do not allow is passed over."""
    teller = Teller(folder=folder)
    for number, (word, name, other, amount) in enumerate(script):
        if word == "create":
            teller.create(name)
        elif word == "sync_folder":
            teller.sync_folder()
        elif name not in teller.names:
            continue
        elif word == "write":
            teller.write(name, bytes([65 + number % 26]) * amount)
        elif word == "resize":
            teller.resize(name, amount)
        elif word == "sync":
            teller.sync(name)
        elif word == "remove":
            teller.remove(name)
        elif word == "rename" and other != name:
            teller.rename(name, other)
    if end:
        teller.note(end)
    return teller.journal()


def scripts(*words: str) -> st.SearchStrategy[Script]:
    """Scripts of up to seven steps, by default of every word."""
    every = words or ("create", "write", "resize", "sync", "sync_folder", "remove", "rename")
    step = st.tuples(
        st.sampled_from(every), st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(1, 3)
    )
    # A file to work on is there from the start, so that few steps are passed over.
    return st.lists(step, max_size=6).map(lambda steps: [("create", "a", "b", 1), *steps])


def disk_after(journal: Journal, steps: int | None = None) -> Disk:
    """The disk after some steps, by default after all."""
    disk = Disk(journal)
    for _ in range(len(journal.steps) if steps is None else steps):
        disk.advance()
    return disk


def states_of(journal: Journal, steps: int | None = None, *, fine: bool = True) -> list[State]:
    """The crash states after some steps."""
    return list(Enumeration(fine=fine).states(disk_after(journal, steps)))


def contents(states: list[State]) -> set[tuple[tuple[str, bytes], ...]]:
    """What is left in each state."""
    return {state.files for state in states}
