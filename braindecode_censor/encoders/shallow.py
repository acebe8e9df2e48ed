"""The first block of ShallowFBCSPNet by Fourier transforms: the same numbers, on a CPU in a fraction of the time."""

import torch
from braindecode.modules import CombinedConv

from braindecode_censor.encoders.lagmoments import fast_length
from braindecode_censor.encoders.norm import is_eager

__all__ = ["FastCombinedConv", "speed_up"]

# Taps from which on a detour by Fourier transforms pays.
_LONG = 8


class FastCombinedConv(CombinedConv):
    r"""Braindecode's convolution in time and space, as products of spectra.

    Filters in time, then over channels, are one filter per output that spans all channels,
    :math:`K_{oct} = \sum_f u_{ofc} w_{ft}`. Its spectrum times the signals', summed over channels, is the spectrum of
    the output, so that the cost does not grow with the length of the filters. On other devices than a CPU, compiled and
    under ``vmap`` the convolution runs as it is.
    """

    def forward(self, x):
        """Filter."""
        if x.device.type != "cpu" or not is_eager():
            return super().forward(x)
        in_time, in_space = self.conv_time.weight.flatten(1), self.conv_spat.weight.squeeze(2)
        n_times, n_taps = x.shape[2], in_time.shape[1]
        n_fft = fast_length(n_times)  # what wraps around falls on the last taps - 1 places, which are cut off
        filters = torch.fft.rfft(in_time, n_fft).conj()
        filters = torch.einsum("ofc,ft->toc", in_space.to(filters.dtype), filters)
        signals = torch.fft.rfft(x.squeeze(1), n_fft, dim=1).permute(1, 2, 0)  # frequencies, channels, trials
        y = torch.fft.irfft((filters @ signals).permute(2, 1, 0), n_fft)[..., : n_times - n_taps + 1]
        bias = self._bias(in_space)
        return (y if bias is None else y + bias.unsqueeze(1)).unsqueeze(-1)

    def _bias(self, in_space):
        bias = self.conv_spat.bias
        if self.conv_time.bias is None:
            return bias
        passed_on = in_space.sum(-1) @ self.conv_time.bias
        return passed_on if bias is None else passed_on + bias


def speed_up(module):
    """Put the layers of this module in the place of Braindecode's, where they pay."""
    for part in module.modules():
        if type(part) is CombinedConv and part.conv_time.kernel_size[0] >= _LONG:
            part.__class__ = FastCombinedConv
