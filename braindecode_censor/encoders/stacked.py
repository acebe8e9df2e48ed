"""Equal EEGNets as one network that decodes single trials, with statistics that follow a subject."""

import torch
from torch import nn
from torch.nn import functional as F

from braindecode_censor.encoders.eegnet import FastEEGNet, is_plain
from braindecode_censor.encoders.lagmoments import fast_length

__all__ = ["StackedEEGNets", "stack_key"]

_NORMS = ("bnorm_temporal", "bnorm_1", "bnorm_2")


def stack_key(module):
    """Return what networks must have in common to be stacked; None for a network that cannot be."""
    if type(module) is not FastEEGNet or not module.takes_masks() or module.kernel_length > module.n_times:
        return None
    plain = [module.elu_1, module.elu_2], [module.pool_1, module.pool_2], [module._modules[k] for k in _NORMS]
    types = nn.ELU, nn.AvgPool2d, nn.BatchNorm2d
    if not all(is_plain(layer, one) for layers, one in zip(plain, types) for layer in layers):
        return None
    if list(module.final_layer._modules) != ["flatten", "linearconstraint"]:
        return None
    shapes = tuple((name, tuple(tensor.shape)) for name, tensor in module.state_dict().items())
    settings = [module.elu_1.alpha, module.elu_2.alpha, module.kernel_length, *map(repr, plain[1])]
    return (module.n_times, shapes, *settings, *(layer.eps for layer in plain[2]))


class StackedEEGNets:
    """Evaluation of R equal :class:`FastEEGNet` on one trial each, in the time of a few.

    Parameters
    ----------
    modules : list of FastEEGNet
        With one :func:`stack_key`.
    priors : list of float or None
        Number of trials that the running statistics count as; every trial then updates the statistics of every batch
        norm before it is normalised, as :func:`~braindecode_censor.training.batch_statistics.stream_batch_norms`
        does. None leaves the statistics as they are.
    """

    @torch.no_grad()
    def __init__(self, modules, priors=None):
        first = self.first = modules[0]

        def stack(read):
            return torch.stack([read(module).detach() for module in modules])

        self.mixing = stack(lambda module: module.conv_spatial.weight.flatten(1))
        self.sums = self.mixing.sum(2).view(len(modules), first.F1, first.D)
        self.bank = _FilterBank(stack(lambda module: module.conv_temporal.weight.flatten(1)), first.n_times)
        point = stack(lambda module: module.conv_separable_point.weight.flatten(1))
        depth = stack(lambda module: module.conv_separable_depth.weight.flatten(1))
        self.separable = (point.unsqueeze(3) * depth.unsqueeze(1)).flatten(0, 1)
        linear = [module.final_layer.linearconstraint for module in modules]
        self.coef = torch.stack([layer.weight.detach() for layer in linear])
        self.intercept = torch.stack([layer.bias.detach() for layer in linear])
        self.norms = [_Norms([module._modules[name] for module in modules], priors) for name in _NORMS]

    @torch.no_grad()
    def __call__(self, x, learn=True):
        """Return the scores (R, n_classes) of normalised signals (R, n_chans, n_times), one trial per network."""
        net, n_nets = self.first, len(x)
        norm = self.norms[0]
        scale, shift = norm.update(*self.bank.power(x)) if learn and norm.priors is not None else norm.affine
        h = self.bank(torch.bmm(self.mixing, x).view(n_nets, net.F1, net.D, -1))
        offset = shift.unsqueeze(2) * self.sums
        h = torch.addcmul(offset.unsqueeze(3), h, scale[..., None, None]).flatten(1, 2)
        h = F.avg_pool1d(F.elu(self.norms[1](h, learn), net.elu_1.alpha), net.pool_1.kernel_size[1])
        padding = net.depthwise_kernel_length // 2
        h = F.conv1d(h.view(1, -1, h.shape[-1]), self.separable, padding=padding, groups=n_nets)
        h = self.norms[2](h.view(n_nets, net.F2, -1), learn)
        h = F.avg_pool1d(F.elu(h, net.elu_2.alpha), net.pool_2.kernel_size[1])
        return torch.baddbmm(self.intercept.unsqueeze(2), self.coef, h.reshape(n_nets, -1, 1)).squeeze(2)


class _FilterBank:
    """Filters (R, F1, K) in time by Fourier transforms, which for one trial are the fastest way."""

    def __init__(self, filters, n_times):
        self.taps = taps = filters.shape[2]
        self.padding, self.n_out = taps // 2, n_times + 1 - taps % 2
        self.n_fft = fast_length(n_times + taps)
        # Rolled, so that the first output is that of the first sample after the padding.
        padded = F.pad(filters.double(), (0, self.n_fft - taps)).roll(-self.padding, -1)
        spectra = torch.fft.rfft(padded).conj()
        self.spectra, self.powers = spectra.to(torch.complex64).unsqueeze(2), spectra.abs().square()
        self.powers[..., 1 : (self.n_fft + 1) // 2] *= 2  # Negative frequencies.
        self.total = filters.double().sum(2)
        width = self.width = taps - 1 - self.padding
        row, column = torch.meshgrid(torch.arange(width), torch.arange(width), indexing="ij")
        first = filters.double()[..., (column - row + taps - 1).clamp_max(taps - 1)].tril()
        last = filters.double()[..., (column - row).clamp_min(0)].triu()
        self.lost = first.flatten(1, 2), last.flatten(1, 2)

    def __call__(self, signals):
        """Return filtered signals (R, F1, D, n_out)."""
        return torch.fft.irfft(torch.fft.rfft(signals, self.n_fft) * self.spectra, self.n_fft)[
            ..., : self.n_out
        ]

    def power(self, x):
        """Return sums and sums of squares (R, F1) over the filtered channels, and their number, without the filtering.

        By Parseval's theorem, less the outputs that a padding of half a filter leaves out at either end.
        """
        x = x.double()
        spectra = torch.view_as_real(torch.fft.rfft(x, self.n_fft))
        ones = spectra.new_ones(len(x), 1, x.shape[1])  # A product is the fastest sum over channels.
        spectrum = torch.bmm(ones, spectra.square().flatten(2)).view(len(x), -1, 2).sum(2, keepdim=True)
        squares = torch.bmm(self.powers, spectrum).squeeze(2) / self.n_fft
        sums = self.total * spectra[:, :, 0, 0].sum(1, keepdim=True)
        for lost, edge in zip(self.lost, (x[..., : self.width], x[..., x.shape[2] - self.width :])):
            outputs = (lost @ edge.mT).view(len(x), self.total.shape[1], -1)
            sums, squares = sums - outputs.sum(2), squares - outputs.square().sum(2)
        return sums, squares, x.shape[1] * self.n_out


class _Norms:
    """The batch norms of equal layers, with the statistics of :class:`SubjectStatistics` where there are priors."""

    def __init__(self, layers, priors):
        self.mean, self.var = (
            torch.stack([getattr(layer, f"running_{k}").double() for layer in layers])
            for k in ("mean", "var")
        )
        self.eps = layers[0].eps
        self.gamma, self.beta = 1.0, 0.0
        if layers[0].affine:
            self.gamma, self.beta = (
                torch.stack([layer.get_parameter(k).detach().double() for layer in layers])
                for k in ("weight", "bias")
            )
        self.priors = None if priors is None else torch.tensor(priors, dtype=torch.float64).unsqueeze(1)
        self.population = self.mean, self.var
        self.n_trials = self.n_numbers = self.sums = self.squares = 0
        self._set_affine()

    def __call__(self, h, learn):
        """Return normalised inputs (R, n_features, n_numbers), after an update by them."""
        scale, shift = self.affine
        if learn and self.priors is not None:
            wide = h.double()
            scale, shift = self.update(wide.sum(2), wide.square().sum(2), h.shape[2])
        return torch.addcmul(shift.unsqueeze(2), h, scale.unsqueeze(2))

    def update(self, sums, squares, n_numbers):
        """Add a trial's sums; return the new scale and shift."""
        self.n_trials += 1
        self.n_numbers += self.n_trials * n_numbers
        self.sums, self.squares = self.sums + self.n_trials * sums, self.squares + self.n_trials * squares
        mean, n = self.sums / self.n_numbers, self.n_numbers
        var = (self.squares / n - mean.square()) * (n / max(1, n - 1))
        weight = self.n_trials / (self.n_trials + self.priors)
        self.mean = torch.lerp(self.population[0], mean, weight)
        self.var = torch.lerp(self.population[1], var.clamp_min(0), weight)
        self._set_affine()
        return self.affine

    def _set_affine(self):
        scale = self.gamma * (self.var + self.eps).rsqrt()
        self.affine = scale.float(), (self.beta - scale * self.mean).float()
