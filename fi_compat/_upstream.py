"""Binds one upstream callable on first use: imports it, records its parameters, keeps it for the process."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from typing import TYPE_CHECKING, Any

from .errors import IncompatibleUpstreamError, UnsupportedFeatureError, UpstreamImportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Upstream", "import_upstream", "reset"]

_log = logging.getLogger(__name__)
_lock = threading.RLock()
_bound: list[Upstream] = []


def import_upstream(module: str) -> Any:
    """Import a module of an upstream; any failure becomes ``UpstreamImportError`` with its cause.

    FlashInfer raises AssertionError, TypeError and RuntimeError at import, so every type is caught, SystemExit too.

    Parameters
    ----------
    module : str
        Dotted name, "flashinfer.comm".

    Returns
    -------
    module
        What was imported.

    Raises
    ------
    UpstreamImportError
        Importing failed; the message names the module, what is installed and what mends it.
    """
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UpstreamImportError(_import_message(module, error)) from error


def _import_message(module: str, error: BaseException) -> str:
    import sys

    from . import _resolver

    top = module.partition(".")[0]
    selection = _resolver._selected.get(top)  # noqa: SLF001 - asking active() here could hide the first error by a second
    found = f"{top} {selection.variant or selection.version} at {selection.root}" if selection else f"{top} as installed"
    remedy = "see the cause above, and `fi-compat doctor`"
    if selection and top == "flashinfer" and module.startswith("flashinfer.comm") and isinstance(error, TypeError):
        if sys.version_info < (3, 12) and selection.version.startswith("0.6.16"):
            remedy = "0.6.16 to 0.6.16.post3 need Python 3.12 here: pip install flashinfer-python==0.6.16.post4"
    elif selection and top == "triton_kernels" and selection.triton_range:
        remedy = (
            f"this tree imports on triton{selection.triton_range}: pip install 'triton{selection.triton_range}', or another kernel wheel"
        )
    return f"importing {module} failed with {type(error).__name__}: {error}; found {found}; what to do: {remedy}"


class _Unbound:
    """Stands for the parameters of a callable until it is asked for one of them."""

    __slots__ = ("_upstream",)

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def __contains__(self, name: object) -> bool:
        self._upstream.bind()
        return name in self._upstream.parameters


class Upstream:
    """One upstream callable, bound on first use.

    Parameters
    ----------
    module, name : str
        Where it is: ``Upstream("flashinfer", "fp4_quantize")``.
    before : callable, optional
        Asked before each binding, and by ``prepare()``; raises where the environment contradicts what calls promise.
    leading : tuple of str, optional
        Parameters that adapters pass by place: upstream's own wrappers take microseconds longer over keywords. Where the
        installed function does not begin with exactly these, they are passed by name all the same.

    Attributes
    ----------
    call : callable
        The upstream function itself once bound. Before that, a function that binds and then calls it, so that callers
        never ask.
    parameters : container of str
        Names that the installed release's function takes.
    """

    __slots__ = ("before", "call", "leading", "module", "name", "parameters")

    def __init__(self, module: str, name: str, before: Callable[[], None] | None = None, leading: tuple[str, ...] = ()) -> None:
        self.module = module
        self.name = name
        self.before = before
        self.leading = leading
        self.parameters: frozenset[str] | _Unbound = _Unbound(self)
        self.call: Callable[..., Any] = self._first

    def __repr__(self) -> str:
        return f"Upstream({self.module}.{self.name})"

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        return self.bind()(*args, **kwargs)

    def bind(self) -> Callable[..., Any]:
        """Import and keep the upstream function; thread-safe, and a failure is not kept."""
        if isinstance(self.parameters, _Unbound):
            with _lock:
                if isinstance(self.parameters, _Unbound):
                    if self.before is not None:
                        self.before()
                    function = self._find()
                    parameters = _parameters_of(function)
                    self.call = function if _places(parameters, self.leading) else _by_name(function, self.leading)
                    self.parameters = frozenset(parameters)
                    _bound.append(self)
                    _log.debug("bound %s.%s(%s)", self.module, self.name, ", ".join(sorted(parameters)))
        return self.call

    def _find(self) -> Callable[..., Any]:
        found = import_upstream(self.module)
        for part in self.name.split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                raise self._missing() from None
        if not callable(found):
            raise self._missing()
        return found  # type: ignore[no-any-return]

    def _missing(self) -> UnsupportedFeatureError:
        from . import _resolver

        selection = _resolver.active(self.module.partition(".")[0])
        found = f"{selection.upstream} {selection.variant or selection.version}"
        return UnsupportedFeatureError(
            f"{self.name} is not in {self.module}: found {found}, needed a release that has it: `fi-compat explain {self.name}`",
            feature=self.name,
            found=found,
        )

    def require(self, parameter: str, value: object, since: str) -> None:
        """Raise unless the installed release takes ``parameter``, which the caller has set to ``value``."""
        if parameter not in self.parameters:
            raise unsupported(self.name, f"{parameter}={value!r}", self.module, since)

    def reset(self) -> None:
        """Forget the binding."""
        self.parameters = _Unbound(self)
        self.call = self._first


def unsupported(function: str, option: str, module: str, since: str) -> UnsupportedFeatureError:
    """Build the error for an option that the installed release lacks."""
    from . import _resolver

    upstream = module.partition(".")[0]
    selection = _resolver.active(upstream)
    found = f"{upstream} {selection.variant or selection.version}"
    pip = f": pip install 'flashinfer-python{since}'" if upstream == "flashinfer" and since.startswith((">", "=")) else ""
    return UnsupportedFeatureError(
        f"{function}: {option} cannot be served: found {found}, needed {upstream} {since}{pip}, or leave the option out",
        feature=option,
        found=found,
        since=since,
    )


def _parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise IncompatibleUpstreamError(f"{function!r} has no readable signature ({error}); reinstall the upstream it came from") from error


def _places(parameters: Mapping[str, inspect.Parameter], leading: tuple[str, ...]) -> bool:
    """Say whether the parameters begin with those names, each of which can be passed by place."""
    first = list(parameters.values())[: len(leading)]
    return tuple(p.name for p in first) == leading and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in first)


def _by_name(function: Callable[..., Any], leading: tuple[str, ...]) -> Callable[..., Any]:
    """Pass what an adapter passes by place by name: a release has moved it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(**dict(zip(leading[: len(args)], args, strict=True)), **kwargs)

    return call


def reset() -> None:
    """Forget every binding; for tests and for the child of a fork."""
    while _bound:
        _bound.pop().reset()
