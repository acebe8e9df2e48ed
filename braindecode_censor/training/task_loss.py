"""Cross-entropy that weighs the classes by what is drawn while training, and by the fold while validating."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["FoldCrossEntropy", "class_weight"]


def class_weight(y, share=None, n_classes=0):
    r"""Weigh every class by the inverse of its share, normalised to sum one.

    .. math:: w_k \propto 1 / p_k, \qquad \sum_k w_k = 1

    with :math:`p_k` the proportion of class k among the training trials (the paper's weights), or among the
    trials that a sampler draws.
    """
    drawn = np.bincount(np.asarray(y), weights=share, minlength=n_classes)
    inverse = np.divide(1, drawn, out=np.zeros(len(drawn)), where=drawn > 0)
    return torch.tensor(inverse / inverse.sum(), dtype=torch.float32)


class FoldCrossEntropy(nn.CrossEntropyLoss):
    """Cross-entropy with one set of class weights in training mode and another in evaluation mode.

    Both estimate the same balanced loss. A sampler that balances the classes has done the weighing already
    while training; the validation subject's trials come as they are and need the fold's weights. It is a
    subclass of ``CrossEntropyLoss`` because skorch then knows that predictions need a softmax.
    """

    def __init__(self, weight=None, train_weight=None, **kwargs):
        super().__init__(weight=weight, **kwargs)
        self.register_buffer("train_weight", weight if train_weight is None else train_weight)

    def forward(self, input, target):
        """Return the loss of a batch."""
        weight = self.train_weight if self.training else self.weight
        return F.cross_entropy(
            input,
            target,
            weight=weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
