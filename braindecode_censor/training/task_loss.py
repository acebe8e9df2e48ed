"""Cross-entropy with class weights for training, which depend on the sampler, and for validation."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["FoldCrossEntropy", "class_weight"]


def class_weight(y, draw_weight=None, n_classes=0):
    r"""Return class weights, inversely proportional to the frequency of the class, that sum to one.

    .. math:: w_k \propto 1 / p_k, \qquad \sum_k w_k = 1

    with :math:`p_k` the proportion of class k among the training trials (the paper's weights), or among the
    trials that a sampler draws.
    """
    frequency = np.bincount(np.asarray(y), weights=draw_weight, minlength=n_classes)
    inverse = np.divide(1, frequency, out=np.zeros(len(frequency)), where=frequency > 0)
    return torch.tensor(inverse / inverse.sum(), dtype=torch.float32)


class FoldCrossEntropy(nn.CrossEntropyLoss):
    """Cross-entropy with one set of class weights in training mode and another in evaluation mode.

    Both estimate the same balanced loss: a sampler may balance the classes of the training batches, but not those of
    the validation trials. It is a subclass of ``CrossEntropyLoss``, whose predictions skorch gives a softmax.
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
