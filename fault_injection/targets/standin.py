"""What stands in a source target for the packages that a check does not import."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from fault_injection.targets.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = frozenset(
    "accelerate datasets deepspeed flash_attn jax megatron peft ray sglang tensordict tensorflow torch "  # noqa: SIM905 - a line each hides the module
    "torchaudio torchdata torchvision transformers trl verl vllm".split()
)
"""Packages that a check never imports; what somebody else has imported already is used."""


def available(module: str) -> bool:
    """Whether a check may really import a module: standard, loaded already, or installed and not heavy."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    if top in sys.modules:
        return sys.modules[top] is not None
    if top in HEAVY:
        return False
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def lenient(factory: Callable[[], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """A decorator that applies another, or nothing where the other's package is not available."""

    def apply(decorated: Any) -> Any:
        try:
            return factory()(decorated)
        except UnavailableError:
            return decorated

    return apply


def catchable(types: Any) -> Any:
    """The type or tuple of types of an `except` clause, without its stand-ins."""
    if isinstance(types, tuple):
        # Python refuses a tuple within the tuple, and so also an empty one in place of a stand-in.
        flat: list[Any] = []
        for each in types:
            kept = catchable(each)
            flat.extend(kept if isinstance(kept, tuple) else [kept])
        return tuple(flat)
    if type(types) is StandIn:
        real = types._real()
        return () if real is None else real
    return types


class StandIn:
    """Takes the place of something that a check does not import, and says so when it is really needed.

    `isinstance` against it is False, its attributes are stand-ins, and any other use raises `UnavailableError`. When
    somebody imports the package later on (a tensor is handed over), the real thing is used.

    Args:
        name: what it stands for, as the error names it.
        why: why it is not there.
        module: the module to look for in `sys.modules`, or "" where there is none.
        attribute: the dotted attribute of that module, or "".
    """

    __slots__ = ("_attribute", "_module", "_name", "_why")

    def __init__(self, name: str, why: str, module: str = "", attribute: str = "") -> None:
        for slot, value in (("_name", name), ("_why", why), ("_module", module), ("_attribute", attribute)):
            object.__setattr__(self, slot, value)

    def _real(self) -> Any:
        found: Any = sys.modules.get(self._module)
        for part in self._attribute.split(".") if self._attribute else ():
            found = getattr(found, part, None)
        return found

    def _refuse(self, *_arguments: object, **_keywords: object) -> NoReturn:
        raise UnavailableError(f"the source uses {self._name}, but {self._why}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        real = self._real()
        if real is not None:
            return getattr(real, name)
        return StandIn(
            f"{self._name}.{name}", self._why, self._module, f"{self._attribute}.{name}".lstrip(".")
        )

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the real thing, if somebody has imported it by now."""
        real = self._real()
        if real is None:
            self._refuse()
        return real(*arguments, **keywords)

    def __instancecheck__(self, instance: object) -> bool:
        real = self._real()
        return real is not None and isinstance(instance, real)

    def __subclasscheck__(self, subclass: type) -> bool:
        real = self._real()
        return real is not None and issubclass(subclass, real)

    def __or__(self, other: Any) -> tuple[Any, ...]:
        return (self, type(None) if other is None else other)

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<stand-in for {self._name}>"


_REFUSED = (
    "add aenter aexit aiter and await bool bytes contains delattr delitem divmod enter exit float floordiv format "  # noqa: SIM905
    "fspath ge getitem gt iadd index int iter le len lt matmul mod mro_entries mul neg next pow radd rmul rsub "
    "rtruediv setattr setitem str sub truediv".split()
)
for _name in _REFUSED:
    setattr(StandIn, f"__{_name}__", StandIn._refuse)
