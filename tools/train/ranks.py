"""Processes that train together, each on batches of its own.

One process a core with one thread each, instead of one process with many threads: they meet twice a
step, not behind every operation, so that a core which others use for a moment holds up nobody.
"""
import multiprocessing
import os
import pathlib

import torch
import torch.distributed as dist
from torch import Tensor


class Ranks:
    """This process among `count`; alone, where that is 1."""

    def __init__(self, rank: int, count: int, meeting_point: pathlib.Path):
        self.rank, self.count = rank, count
        if count > 1:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank,
                                    world_size=count)

    def sum(self, tensors: list[Tensor]):
        """Each tensor becomes its sum over all processes."""
        if self.count == 1:
            return
        flat = torch.cat([t.flatten() for t in tensors])
        dist.all_reduce(flat)
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
            t.copy_(part.view_as(t))

    def gather(self, thing) -> list:
        """Everybody's, at the first; nothing at the others."""
        if self.count == 1:
            return [thing]
        things = [None] * self.count if self.rank == 0 else None
        dist.gather_object(thing, things)
        return things or []

    def close(self):
        if self.count > 1:
            dist.destroy_process_group()


def start_others(work, count: int, *arguments) -> list[multiprocessing.Process]:
    """work(rank, *arguments) for every rank but the first, which is the caller."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=work, args=(rank, *arguments), daemon=True)
              for rank in range(1, count)]
    for other in others:
        other.start()
    return others
