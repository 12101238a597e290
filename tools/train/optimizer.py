"""Muon for the matrices, AdamW for the rest.

torch.optim.Muon rounds to bfloat16 before it orthogonalizes, which a processor without bfloat16
arithmetic emulates; this one stays in float32 and takes matrices of one shape together.
"""
import torch
from torch import Tensor, nn

# The quintic of Keller Jordan's Muon: steepest at zero, and singular values end between 0.7 and 1.2.
QUINTIC = (3.4445, -4.7750, 2.0315)
QUINTIC_STEPS = 5


def orthogonalize(g: Tensor) -> Tensor:
    """The nearest matrix [..., rows, columns], rows <= columns, whose singular values are about 1."""
    a, b, c = QUINTIC
    x = g / (torch.linalg.matrix_norm(g, keepdim=True) + 1e-7)
    for _ in range(QUINTIC_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal; as large in RMS as AdamW's steps are (0.2)."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.05):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            alike: dict[tuple, list[nn.Parameter]] = {}
            for p in group["params"]:
                alike.setdefault(tuple(sorted(p.shape)), []).append(p)
            for params in alike.values():
                self.step_alike(params, group)

    def step_alike(self, params: list[nn.Parameter], group: dict):
        directions = []
        for p in params:
            state = self.state[p]
            if not state:
                state["momentum"] = torch.zeros_like(p)
            state["momentum"].lerp_(p.grad, 1 - group["momentum"])
            direction = p.grad.lerp(state["momentum"], group["momentum"])
            directions.append(direction if p.shape[0] <= p.shape[1] else direction.mT)
        steps = orthogonalize(torch.stack(directions))
        for p, step in zip(params, steps):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            scale = 0.2 * max(p.shape) ** 0.5
            p.add_(step if p.shape[0] <= p.shape[1] else step.mT, alpha=-group["lr"] * scale)


def make_optimizers(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embd" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim == 1 or "embd" in name]
    return [Muon(matrices, lr),
            torch.optim.AdamW(others, lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)]
