"""Muon for the matrices, AdamW for the rest.

torch.optim.Muon rounds to bfloat16 before it orthogonalizes, which a processor without bfloat16
arithmetic emulates; this one stays in float32, takes matrices of one shape together, and shares
them out between the processes.
"""
import torch
from ranks import Ranks
from torch import Tensor, nn

# The quintic of Keller Jordan's Muon: steepest at zero; singular values end between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
QUINTIC_STEPS = 5


def orthogonalize(g: Tensor) -> Tensor:
    """The nearest matrix [..., rows, columns], rows <= columns, with singular values of about 1."""
    a, b, c = QUINTIC
    x = g / (torch.linalg.matrix_norm(g, keepdim=True) + 1e-7)
    for _ in range(QUINTIC_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal; as large in RMS as AdamW's steps are (0.2)."""

    def __init__(self, params, lr: float, ranks: Ranks, momentum: float = 0.95,
                 weight_decay: float = 0.05):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.ranks = ranks

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            alike: dict[tuple, list[nn.Parameter]] = {}
            for p in group["params"]:
                alike.setdefault(tuple(sorted(p.shape)), []).append(p)
            stacks = [self.orthogonal_part(params, group["momentum"])
                      for params in alike.values()]
            self.ranks.sum(stacks)
            for params, stack in zip(alike.values(), stacks):
                self.apply(params, stack, group)

    def orthogonal_part(self, params: list[nn.Parameter], momentum: float) -> Tensor:
        """The steps of this process' share of some matrices, and zeros for the others'."""
        directions = []
        for p in params:
            state = self.state[p]
            if not state:
                state["momentum"] = torch.zeros_like(p)
            state["momentum"].lerp_(p.grad, 1 - momentum)
            direction = p.grad.lerp(state["momentum"], momentum)
            directions.append(direction if p.shape[0] <= p.shape[1] else direction.mT)
        stack = torch.stack(directions)
        mine = slice(self.ranks.rank, None, self.ranks.count)
        part = orthogonalize(stack[mine])
        if self.ranks.count == 1:
            return part
        stack.zero_()
        stack[mine] = part
        return stack

    @staticmethod
    def apply(params: list[nn.Parameter], stack: Tensor, group: dict):
        for p, step in zip(params, stack):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            scale = 0.2 * max(p.shape) ** 0.5
            p.add_(step if p.shape[0] <= p.shape[1] else step.mT, alpha=-group["lr"] * scale)


def make_optimizers(model: nn.Module, lr: float, ranks: Ranks) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embd" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim == 1 or "embd" in name]
    return [Muon(matrices, lr, ranks),
            torch.optim.AdamW(others, lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)]
