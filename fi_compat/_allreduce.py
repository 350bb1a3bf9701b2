"""The manager behind ``fi_compat.comm.AllReduceFusion``: agreement, creation, growth, fallback."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _bindings
from .errors import ConfigurationError, GroupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["Manager"]

_log = logging.getLogger(__name__)

#: Seconds between two looks at a vote, and what counts as waiting at most from one to the next.
_POLL, _LONGEST_POLL = 0.02, 0.2


class Manager:
    """See ``AllReduceFusion``."""

    def __init__(self, group: Any, timeout: timedelta | float) -> None:
        import torch.distributed as dist

        if not isinstance(group, dist.ProcessGroup):
            raise ValueError(f"AllReduceFusion: found group={group!r}, needed a torch.distributed process group that this process is in")  # noqa: TRY004 - torch gives an int for a group of other ranks
        self._timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
        self._group = group
        self._ranks = list(dist.get_process_group_ranks(group))
        self._rank = dist.get_rank(group)
        self._pid = os.getpid()
        self._closed = False
        self._workspace: Any = None
        self._retired: list[Any] = []
        self._fits: set[tuple[int, int, Any]] = set()
        self._reserved: tuple[int, int, Any] | None = None
        self.unavailable_reason: str | None = None
        self._round = 0
        self._beats: Any = None
        try:
            self._control, self._name = _control_group(self._ranks, self._timeout)
        except RuntimeError as error:
            self._closed = True
            raise self._lost("making the control group", error) from error

    # -- use ----------------------------------------------------------------------------------------------------------------

    def reserve(self, max_token_num: int, hidden_dim: int, dtype: Any) -> None:
        """Make sure that a workspace of this size exists, or that all ranks know why not."""
        self._usable("reserve")
        wanted = (max_token_num, hidden_dim, dtype)
        if self._reserved is not None and self._holds(*wanted):
            return
        if _capturing():
            raise ConfigurationError(
                f"AllReduceFusion: found a stream that captures and no workspace for {max_token_num} x {hidden_dim} {dtype}, needed"
                " reserve() with that size before capture"
            )
        if self.unavailable_reason is None:
            self._grow(wanted)

    def allreduce(self, input: Tensor, output: Tensor | None, launch_with_pdl: bool) -> Tensor:
        """Sum over the group."""
        workspace = self._ready(input)
        if workspace is None:
            return _torch_allreduce(input, output, self._group)
        import torch

        out = torch.empty_like(input) if output is None else output
        _fused(input, workspace, 0, launch_with_pdl, output=out)
        return out

    def allreduce_residual_rmsnorm(
        self,
        input: Tensor,
        residual_in: Tensor,
        rms_gamma: Tensor,
        rms_eps: float,
        residual_out: Tensor | None,
        norm_out: Tensor | None,
        launch_with_pdl: bool,
    ) -> tuple[Tensor, Tensor]:
        """Sum over the group, add the residual, normalise."""
        import torch

        workspace = self._ready(input)
        residual_out = torch.empty_like(residual_in) if residual_out is None else residual_out
        norm_out = torch.empty_like(input) if norm_out is None else norm_out
        if workspace is None:
            total = _torch_allreduce(input, None, self._group).float() + residual_in.float()
            residual_out.copy_(total)
            norm_out.copy_(total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + rms_eps) * rms_gamma.float())
        else:
            _fused(
                input,
                workspace,
                1,
                launch_with_pdl,
                residual_in=residual_in,
                rms_gamma=rms_gamma,
                rms_eps=rms_eps,
                residual_out=residual_out,
                norm_out=norm_out,
            )
        return norm_out, residual_out

    def close(self) -> None:
        """Free everything once; in the child of a fork, forget it."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            return
        self._destroy_all()
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group(self._control)

    # -- the inside ---------------------------------------------------------------------------------------------------------

    def _usable(self, what: str) -> None:
        if os.getpid() != self._pid:
            raise ConfigurationError(
                f"AllReduceFusion.{what}: found process {os.getpid()}, a fork of {self._pid} that made it, needed one made after the fork:"
                " CUDA memory and process groups do not survive it"
            )
        if self._closed:
            raise ConfigurationError(f"AllReduceFusion.{what}: found a closed manager, needed an open one: make a new AllReduceFusion")

    def _ready(self, input: Tensor) -> Any:
        """Return the workspace for a call, or None where all ranks fall back."""
        tokens, hidden = input.shape
        key = (tokens, hidden, input.dtype)
        if key not in self._fits or os.getpid() != self._pid or self._closed:
            self.reserve(*key)
            if self.unavailable_reason is not None and _capturing():
                raise ConfigurationError(
                    f"AllReduceFusion: found a stream that captures and no workspace ({self.unavailable_reason}), needed one: the fallback"
                    " is not captured"
                )
            if self.unavailable_reason is None:
                self._fits.add(key)
        return self._workspace

    def _holds(self, tokens: int, hidden: int, dtype: Any) -> bool:
        return self._workspace is not None and _bindings.flashinfer.comm.sufficient(self._workspace, tokens, hidden, dtype, None)

    def _grow(self, wanted: tuple[int, int, Any]) -> None:
        self._round += 1
        with self._alive():
            reason = self._preflight(wanted)
        votes = self._vote("preflight", (reason, wanted), limit=None)
        sizes = {size for _, size in votes}
        if len(sizes) > 1:
            raise ValueError(
                f"AllReduceFusion.reserve: found different sizes on the ranks {self._ranks}: {sorted(map(str, sizes))}, needed the same"
            )
        if self._fall_back([(said, 0.0) for said, _ in votes]):
            return
        created, reason, when = None, None, 0.0
        with self._alive():
            try:
                created = self._create(wanted)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other ranks must hear of it
                reason, when = f"{type(error).__name__}: {error}", time.time()
                _log.info("rank %s: creating the workspace failed: %s", self._rank, reason)
        try:
            said = self._vote("creation", (reason, when), limit=self._creation_limit())
        except GroupError:
            self._destroy(created)
            raise
        if self._fall_back(said):
            self._destroy(created)
            self._destroy_all()
            return
        if self._workspace is not None:
            self._retired.append(self._workspace)
        self._workspace = created
        self._reserved = wanted
        self._fits.clear()

    def _creation_limit(self) -> float:
        """Return how long another rank may wait in creation for one that failed there, in seconds.

        Until the control group's timeout; where the release meets over torch's symmetric memory (0.6.10 to 0.6.14), until that of
        the store, inside which the waiting rank holds the GIL and cannot even say that it is alive.
        """
        seconds = self._timeout.total_seconds()
        if _bindings.flashinfer.comm.ALONE:
            return 2 * seconds + 1
        stored = getattr(_default_store(), "timeout", None)
        return 2 * seconds + 1 + (stored.total_seconds() if stored is not None else 0.0)

    def _create(self, wanted: tuple[int, int, Any]) -> Any:
        from . import comm

        tokens, hidden, dtype = wanted
        return comm.create_allreduce_fusion_workspace(
            "trtllm",
            world_size=len(self._ranks),
            rank=self._rank,
            max_token_num=tokens,
            hidden_dim=hidden,
            dtype=dtype,
            group=self._control,
        )

    def _preflight(self, wanted: tuple[int, int, Any]) -> str | None:
        """Say why this rank cannot take part, or None; builds the compiled module, which can take minutes."""
        import torch

        tokens, hidden, dtype = wanted
        if tokens < 1 or hidden < 1 or dtype not in {torch.float16, torch.bfloat16, torch.float32}:
            return f"ValueError: {tokens} x {hidden} {dtype}: needed at least 1 x 1 in float16, bfloat16 or float32"
        try:
            _device_ready()
            comm: Any = _bindings.flashinfer.comm
            comm.load_comm_module()
        except Exception as error:  # noqa: BLE001 - any failure means: not on this rank, and the others must hear why
            return f"{type(error).__name__}: {error}"
        return None

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """Let the other ranks see that this one works, however long a step takes."""
        stop = threading.Event()
        pause = max(self._timeout.total_seconds() / 4, 0.05)

        def beat() -> None:
            # Most steps end before this: each connection costs the store's one thread a reverse DNS look-up, and all ranks wait
            # for that thread, 5 seconds where an answer is lost (torch 2.13).
            if stop.wait(pause):
                return
            if self._beats is None:
                store = _default_store()
                # A connection of its own: the default one is locked while a collective waits on it.
                self._beats = store.clone() if hasattr(store, "clone") else store
            while not stop.is_set():
                self._beats.add(f"{self._name}/beat/{self._rank}", 1)
                stop.wait(pause)

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield
        finally:
            stop.set()

    def _vote(self, what: str, said: Any, limit: float | None) -> list[Any]:
        """Tell the other ranks and hear from all of them, over the store: a collective that timed out would be dead for the next.

        A rank that is silent (no vote, no heartbeat) for the timeout is lost, and so is one whose vote takes longer than ``limit``; where
        creation may hold the GIL, silence counts from ``limit`` on only. Time in which the store itself does not answer is nobody's
        silence: no rank can be heard then.
        """
        store = _default_store()
        prefix = f"{self._name}/{self._round}/{what}"
        store.set(f"{prefix}/{self._rank}", pickle.dumps(said))
        silence = self._timeout.total_seconds()
        if limit is not None and limit > 2 * silence + 1:
            silence = limit
        waited, last = 0.0, time.monotonic()
        for rank in range(len(self._ranks)):
            beats, quiet = -1, 0.0
            while not store.check([f"{prefix}/{rank}"]):
                current = int(store.add(f"{self._name}/beat/{rank}", 0))
                now = time.monotonic()
                passed, last = min(now - last, _LONGEST_POLL), now
                waited += passed
                beats, quiet = current, quiet + passed if current == beats else 0.0
                if quiet > silence or (limit is not None and waited > limit):
                    self._closed = True
                    self._destroy_all()
                    raise self._lost(f"agreeing on {what}, where rank {self._ranks[rank]} is silent,", None)
                time.sleep(_POLL)
        return [pickle.loads(store.get(f"{prefix}/{rank}")) for rank in range(len(self._ranks))]  # noqa: S301 - written by our own peers

    def _fall_back(self, reasons: list[tuple[str | None, float]]) -> bool:
        """Keep the earliest reason with its rank, the same on all ranks; say whether there is one.

        The others are mostly ranks that waited for the one that failed first.
        """
        failed = [(when, rank, reason) for rank, (reason, when) in zip(self._ranks, reasons, strict=True) if reason is not None]
        if not failed:
            return False
        _, rank, reason = min(failed)
        self.unavailable_reason = f"rank {rank}: {reason}"
        _log.warning("AllReduceFusion over ranks %s falls back to torch.distributed: %s", self._ranks, self.unavailable_reason)
        return True

    def _lost(self, doing: str, error: BaseException | None) -> GroupError:
        said = f": {error}" if error is not None else ""
        return GroupError(
            f"AllReduceFusion: {doing} over ranks {self._ranks} was not answered by all of them within {self._timeout.total_seconds():g} s;"
            f" needed every rank alive and in the same call: restart the ranks{said}"
        )

    def _destroy(self, workspace: Any) -> None:
        if workspace is not None:
            try:
                _bindings.flashinfer.comm.destroy_workspace(workspace)
            except Exception:  # noqa: BLE001 - one that cannot be freed must not keep the others
                _log.exception("a workspace could not be destroyed")

    def _destroy_all(self) -> None:
        for workspace in (*self._retired, self._workspace):
            self._destroy(workspace)
        self._retired.clear()
        self._workspace = None
        self._reserved = None
        self._fits.clear()


def _default_store() -> Any:
    import torch.distributed.distributed_c10d as c10d

    return c10d._get_default_store()  # noqa: SLF001 - torch has no public way to its store


#: How many control groups this process has made for the same ranks; equal on all of them, which make theirs in one order.
_made: dict[tuple[int, ...], int] = {}


def _control_group(ranks: list[int], timeout: timedelta) -> tuple[Any, str]:
    """Make a gloo group of some ranks that only these ranks take part in making, under a name of its own.

    ``dist.new_group(..., use_local_synchronization=True)`` hashes into the name how many groups this *process* has: ranks that are
    in different numbers of groups (two overlapping managers) wait for each other under different names, and a second group
    of the same ranks, after the first was destroyed, meets the first one's stale addresses in the store (torch 2.13).
    """
    import torch.distributed.distributed_c10d as c10d

    key = tuple(ranks)
    _made[key] = serial = _made.get(key, 0) + 1
    name = f"fi_compat_{'_'.join(map(str, ranks))}_{serial}"
    mine = c10d.get_rank()
    made = c10d._new_process_group_helper(  # noqa: SLF001 - new_group has no name to give
        len(ranks),
        ranks.index(mine),
        ranks,
        c10d.Backend("gloo"),
        _default_store(),
        name,
        timeout=timeout,
    )
    group = made[0] if isinstance(made, tuple) else made
    c10d._world.pg_group_ranks[group] = {rank: index for index, rank in enumerate(ranks)}  # noqa: SLF001 - as new_group does
    return group, name


def _capturing() -> bool:
    import torch

    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def _device_ready() -> None:
    """Raise where there is no CUDA device to allocate on."""
    import torch

    if not torch.cuda.is_available():
        raise ConfigurationError("no CUDA device is available to this process")


def _torch_allreduce(input: Tensor, output: Tensor | None, group: Any) -> Tensor:
    import torch.distributed as dist

    out = input.clone() if output is None else output.copy_(input)
    dist.all_reduce(out, group=group)
    return out


def _fused(input: Tensor, workspace: Any, pattern: int, launch_with_pdl: bool, **tensors: Any) -> None:
    from . import comm

    comm.allreduce_fusion(input, workspace, pattern, launch_with_pdl=launch_with_pdl, **tensors)
