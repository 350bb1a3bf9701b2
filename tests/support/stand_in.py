"""Stands in for nvidia-cutlass-dsl, which is never installed here, so that upstream's own CuTe-DSL Python can be imported.

Nothing of it computes: names resolve, decorators return what they decorate, and classes can be derived from.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Anything(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else cls

    def __getitem__(cls, _item: Any) -> Any:
        return cls

    def __or__(cls, _other: Any) -> Any:
        return cls

    __ror__ = __mul__ = __rmul__ = __add__ = __radd__ = __sub__ = __or__

    def __gt__(cls, _other: Any) -> bool:
        return False

    __lt__ = __ge__ = __le__ = __gt__

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __int__(cls) -> int:
        return 0

    __index__ = __int__


class Anything(metaclass=_Anything):
    """Any name of the package that is stood in for."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] == "cutlass":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(Anything, name)  # type: ignore[method-assign]
        module.__version__ = "4.8.0"  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


@contextmanager
def cutlass_dsl() -> Iterator[None]:
    """Let ``import cutlass`` and everything below it succeed inside the block."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] == "cutlass"]:
            del sys.modules[name]
