"""Which ranks a workspace is for: group, comm_backend, rank and world_size checked against each other."""

from __future__ import annotations

from typing import Any

__all__ = ["resolve_group"]

_NAME = "create_allreduce_fusion_workspace"


def resolve_group(comm: Any, world_size: int, rank: int, group: Any, comm_backend: Any) -> tuple[Any, Any]:
    """Return ``(group, comm_backend)`` that name the same ranks, both given to upstream where it takes both.

    Parameters
    ----------
    comm : module
        The adapter's comm module.
    world_size, rank : int
        What the caller says.
    group, comm_backend
        What the caller gave.

    Raises
    ------
    ValueError
        Anything that upstream would answer with a hang, an obscure error or the wrong peers.
    """
    import torch.distributed as dist

    own = _own_group(comm_backend)
    if group is None and comm_backend is None:
        if not dist.is_initialized():
            raise ValueError(
                f"{_NAME}: found no group and torch.distributed not initialised, needed init_process_group() or a comm_backend"
            )
        if dist.get_world_size() != world_size:
            raise ValueError(
                f"{_NAME}: found neither group nor comm_backend with world_size={world_size} in a WORLD of {dist.get_world_size()}, needed"
                " group=: upstream would wait for all of WORLD, or meet the wrong ranks"
            )
        group = dist.group.WORLD
    elif group is None:
        group = own
        if group is None and not comm.ALONE:
            raise ValueError(
                f"{_NAME}: found a {type(comm_backend).__name__} without a process group, needed group=: this release meets over WORLD whatever"
                " comm_backend says"
            )
    elif comm_backend is not None and own is not None and _ranks(own) != _ranks(group):
        raise ValueError(
            f"{_NAME}: found group of ranks {_ranks(group)} and comm_backend of ranks {_ranks(own)}, needed the same: leave comm_backend out"
        )
    if group is None:
        _check_backend(comm_backend, world_size, rank)
        return None, comm_backend
    members = _ranks(group)
    mine = dist.get_rank()
    if mine not in members:
        raise ValueError(f"{_NAME}: found rank {mine} of WORLD calling for a group of ranks {members}, needed a member")
    if (len(members), members.index(mine)) != (world_size, rank):
        raise ValueError(
            f"{_NAME}: found world_size={world_size}, rank={rank}, needed {len(members)} and {members.index(mine)}: the group is of ranks"
            f" {members} and this is rank {mine} of WORLD"
        )
    if comm_backend is None or (own is not None and type(comm_backend).__name__ == "TorchDistBackend"):
        comm_backend = comm.backend_for(group)
    else:
        _check_backend(comm_backend, world_size, rank)
    return group, comm_backend


def _own_group(comm_backend: Any) -> Any:
    """Return the process group of a torch-based comm_backend, WORLD for one made without a group, or None."""
    import torch.distributed as dist

    if comm_backend is None:
        return None
    for name in ("_group", "group"):
        found = getattr(comm_backend, name, None)
        if isinstance(found, dist.ProcessGroup):
            return found
    if any(kind.__name__ == "TorchDistBackend" for kind in type(comm_backend).__mro__):
        return dist.group.WORLD
    return None


def _ranks(group: Any) -> list[int]:
    import torch.distributed as dist

    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"{_NAME}: found a group that this process is not in (rank {dist.get_rank()} of WORLD), needed one that it is in")
    return list(dist.get_process_group_ranks(group))


def _check_backend(comm_backend: Any, world_size: int, rank: int) -> None:
    found = (comm_backend.Get_size(), comm_backend.Get_rank())
    if found != (world_size, rank):
        raise ValueError(
            f"{_NAME}: found world_size={world_size}, rank={rank}, needed {found[0]} and {found[1]}, which is what comm_backend"
            f" ({type(comm_backend).__name__}) says"
        )
