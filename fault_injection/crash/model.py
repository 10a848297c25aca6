"""The persistence model: what of a run a power loss may leave. `describe()` is its text for the documentation.

Nothing is durable before a sync says so, and everything that is not durable is kept or lost by itself:

- The bytes written to a file since its last fsync are kept, lost, or kept in part: torn at any byte, with earlier blocks
  of 512 or 4096 bytes lost (they read as what was there before, or as zeros) and later ones kept. The size may persist
  without the bytes. fsync of the file makes its bytes and its size durable, and not its name.
- A change of names (create, mkdir, rename, link, unlink, rmdir) is kept or lost whole, whatever becomes of other changes
  and of the data of the files; those kept take effect in their order. A sync of the directory makes its changes durable.
  A rename leaves the old name or the new, never neither; from one directory into another it may leave both.
- A file is there when its name and those of all directories above it are.
- `os.sync` makes everything durable; a file opened with O_SYNC or O_DSYNC is synced by each write.
- After an fsync that failed, the bytes that it should have forced may be gone although later ones succeed.

Each property that a real file system may add takes states away; which of them a writer cannot do without is what the
report says. The model is that of Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), in its weakest form.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fault_injection.crash.record import ROOT, Journal, Step

PROPERTIES: dict[str, str] = {
    "name-after-data": "rename persists after data",
    "data": "data persists without fsync",
    "entry": "directory entry persists without a directory fsync",
    "folder": "a new directory persists without an fsync of the directory above it",
    "fsync-names": "fsync persists the name of what it syncs too",
    "ordered-names": "directory entries persist in order",
    "ordered-data": "writes of a file persist in order",
    "whole-writes": "a write persists whole or not at all",
    "size": "the size of a file persists with its data",
    "retry": "a failed fsync loses nothing",
}
"""What a file system may grant beyond the model, by name; the sentence completes "needs: ...". """


def describe() -> str:
    """The model and the properties that weaken it, for the documentation."""
    head = (__doc__ or "").partition("\n\n")[2].strip()
    return "\n".join([head, "", *(f"- `{name}`: {sentence}" for name, sentence in PROPERTIES.items())])


@dataclass(frozen=True)
class Entry:
    """What a name stands for.

    Args:
        node: the file or directory.
        step: the number of the step that gave it the name, 0 for one that was there at the start.
        moved: whether that was a rename or a link, which publishes a file, and not its creation.
    """

    node: int
    step: int = 0
    moved: bool = False


@dataclass(frozen=True)
class NameOp:
    """A change of one directory that is not durable yet.

    Args:
        step: its number, from 1.
        folder: the directory.
        changes: what each name stands for from then on; None: nothing.
        node: the file that gets a name, or -1.
        makes_folder: whether it is a new directory that gets its name.
        after: the step of the change without which this one is not kept, or 0.
    """

    step: int
    folder: int
    changes: tuple[tuple[str, Entry | None], ...]
    node: int = -1
    makes_folder: bool = False
    after: int = 0


@dataclass(frozen=True)
class DataOp:
    """A change of a file's bytes.

    Args:
        step: its number.
        offset: where the bytes go, or the new size.
        data: the bytes; None for a change of the size.
        forced: whether it is durable.
        doomed: whether a failed sync dropped it, so that no later one makes it durable.
    """

    step: int
    offset: int
    data: bytes | None
    forced: bool = False
    doomed: bool = False

    def on(self, content: bytearray, part: int | None = None) -> None:
        """Do it to a content; `part`: only the first so many bytes."""
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
            return
        data = self.data if part is None else self.data[:part]
        content.extend(bytes(max(self.offset - len(content), 0)))
        content[self.offset : self.offset + len(data)] = data


@dataclass(frozen=True)
class File:
    """A file's durable bytes, and what was done to it since.

    Args:
        base: the bytes that every crash leaves.
        ops: the changes since, in order.
    """

    base: bytes = b""
    ops: tuple[DataOp, ...] = ()

    def synced(self) -> File:
        """The file after a sync."""
        return replace(
            self, ops=tuple(op if op.doomed else replace(op, forced=True) for op in self.ops)
        ).folded()

    def lost(self) -> File:
        """The file after a sync that failed and dropped what it should have forced."""
        return replace(self, ops=tuple(op if op.forced else replace(op, doomed=True) for op in self.ops))

    def folded(self) -> File:
        """The same with leading durable changes in the base."""
        content, rest = bytearray(self.base), list(self.ops)
        while rest and rest[0].forced:
            rest.pop(0).on(content)
        return File(bytes(content), tuple(rest))

    @property
    def content(self) -> bytes:
        """The bytes that the running system shows."""
        content = bytearray(self.base)
        for op in self.ops:
            op.on(content)
        return bytes(content)


@dataclass
class Disk:
    """The durable state and all that is not durable yet, after some number of steps.

    Args:
        journal: the recorded run.
    """

    journal: Journal
    step: int = 0
    entries: dict[int, dict[str, Entry]] = field(default_factory=dict)
    names: list[NameOp] = field(default_factory=list)
    files: dict[int, File] = field(default_factory=dict)
    syncs: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entries = {folder: {} for folder in self.journal.folders}
        for folder, name, node in self.journal.entries:
            self.entries[folder][name] = Entry(node)
        self.files = {node: File(content) for node, content in self.journal.contents}
        self.links = dict(self.journal.links)
        # What the running system shows: a rename may need to know whether a name was there.
        self.live = {folder: dict(names) for folder, names in self.entries.items()}

    def advance(self) -> None:
        """Take one more step."""
        step = self.journal.steps[self.step]
        self.step += 1
        if step.kind in {"write", "resize"}:
            file = self.files.get(step.node, File())
            data = step.data if step.kind == "write" else None
            self.files[step.node] = replace(file, ops=(*file.ops, DataOp(self.step, step.offset, data)))
        elif step.kind == "lose":
            self.files[step.node] = self.files.get(step.node, File()).lost()
        elif step.kind == "sync":
            self._sync(step.node)
        elif step.kind == "syncall":
            for node in (*self.journal.folders, *self.files):
                self._sync(node)
            # A removal from one directory may have waited for the new name in another.
            for folder in self.journal.folders:
                self._sync(folder)
        else:
            self._rename(step) if step.kind == "rename" else self._name(step)

    def _name(self, step: Step) -> None:
        gone = step.kind == "remove"
        entry = None if gone else Entry(step.node, self.step, step.kind == "link")
        if step.kind == "create":
            self.files.setdefault(step.node, File())
        op = NameOp(
            self.step,
            step.folder,
            ((step.name, entry),),
            -1 if gone else step.node,
            makes_folder=step.kind == "mkdir",
        )
        self._pend(op)

    def _rename(self, step: Step) -> None:
        entry = Entry(step.node, self.step, moved=True)
        if step.old_folder == step.folder:
            self._pend(NameOp(self.step, step.folder, ((step.old_name, None), (step.name, entry)), step.node))
            return
        self._pend(NameOp(self.step, step.folder, ((step.name, entry),), step.node))
        if step.old_folder >= 0:
            # Numbered apart from its other half, so that a plan can keep one without the other.
            self._pend(NameOp(-self.step, step.old_folder, ((step.old_name, None),), after=self.step))

    def _pend(self, op: NameOp) -> None:
        self.names.append(op)
        change(self.live, op)

    def _sync(self, node: int) -> None:
        self.syncs[node] = self.step
        if node in self.files:
            self.files[node] = self.files[node].synced()
            return
        pending = {op.step for op in self.names if op.folder != node}
        rest = []
        for op in self.names:
            if op.folder == node and op.after not in pending:
                change(self.entries, op)
            else:
                rest.append(op)
        self.names = rest


def change(entries: dict[int, dict[str, Entry]], op: NameOp) -> None:
    """Do a change of names."""
    names = entries[op.folder]
    for name, entry in op.changes:
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


def visible(
    entries: dict[int, dict[str, Entry]], folders: frozenset[int], links: dict[int, str | None]
) -> dict[str, Entry]:
    """The files that can be reached from the root, by path; a symbolic link stands for the file that it leads to."""
    found: dict[str, Entry] = {}
    _walk(entries, folders, ROOT, "", found)
    for path in [path for path, entry in found.items() if entry.node in links]:
        target = links[found.pop(path).node]
        if target is not None and target in found and found[target].node not in links:
            found[path] = found[target]
    return found


def _walk(
    entries: dict[int, dict[str, Entry]],
    folders: frozenset[int],
    folder: int,
    prefix: str,
    found: dict[str, Entry],
) -> None:
    for name, entry in entries[folder].items():
        if entry.node not in folders:
            found[prefix + name] = entry
        # A directory that was moved below itself by a lost change can be reached from nowhere, or for ever.
        elif len(prefix) < 4096:
            _walk(entries, folders, entry.node, f"{prefix}{name}/", found)
