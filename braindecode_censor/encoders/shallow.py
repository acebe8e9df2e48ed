"""The first block of ShallowFBCSPNet by Fourier transforms: equal outputs, several times faster on a CPU."""

import torch
from braindecode.modules import CombinedConv

from braindecode_censor.encoders.lagmoments import fast_length
from braindecode_censor.encoders.norm import is_eager

__all__ = ["FastCombinedConv", "speed_up"]

# Number of taps from which Fourier transforms are faster.
_MIN_TAPS = 8


class FastCombinedConv(CombinedConv):
    r"""Braindecode's convolution in time and space, as products of spectra.

    Filters in time and then over channels equal one filter per output that spans all channels,
    :math:`K_{oct} = \sum_f u_{ofc} w_{ft}`. The product of the spectra of filter and signals, summed over channels, is
    the spectrum of the output, so the cost does not depend on the length of the filters. On a GPU, compiled and under
    ``vmap`` the convolution of Braindecode runs.
    """

    def forward(self, x):
        """Return the filtered signals (n_trials, n_filters, n_out, 1)."""
        if x.device.type != "cpu" or not is_eager():
            return super().forward(x)
        in_time, in_space = self.conv_time.weight.flatten(1), self.conv_spat.weight.squeeze(2)
        n_times, n_taps = x.shape[2], in_time.shape[1]
        n_fft = fast_length(n_times)  # Only the last taps - 1 samples wrap around, and these are removed.
        filters = torch.fft.rfft(in_time, n_fft).conj()
        filters = torch.einsum("ofc,ft->toc", in_space.to(filters.dtype), filters)
        signals = torch.fft.rfft(x.squeeze(1), n_fft, dim=1).permute(1, 2, 0)  # frequencies, channels, trials
        y = torch.fft.irfft((filters @ signals).permute(2, 1, 0), n_fft)[..., : n_times - n_taps + 1]
        bias = self._bias(in_space)
        return (y if bias is None else y + bias.unsqueeze(1)).unsqueeze(-1)

    def _bias(self, in_space):
        """Return the bias of each output, including that in time after the filters in space; None without biases."""
        bias = self.conv_spat.bias
        if self.conv_time.bias is None:
            return bias
        time_bias = in_space.sum(-1) @ self.conv_time.bias
        return time_bias if bias is None else time_bias + bias


def speed_up(module):
    """Replace Braindecode's layers by the faster ones of this file if their filters are long."""
    for layer in module.modules():
        if type(layer) is CombinedConv and layer.conv_time.kernel_size[0] >= _MIN_TAPS:
            layer.__class__ = FastCombinedConv
