"""Correlation filters: find patches of an image again in later images, all patches at once. Arrays in, arrays out.

A filter is learned in the Fourier domain so that its correlation with the patch of an object is a narrow peak in the
middle, of height 1, and near 0 elsewhere. In a later image the peak is where the object is now. Its height, and how far
it stands out from the rest (peak-to-sidelobe ratio), tell whether the object is seen at all.

- Bolme, Beveridge, Draper, Lui, "Visual Object Tracking using Adaptive Correlation Filters", CVPR 2010 (MOSSE): running
  numerator and denominator, and the peak-to-sidelobe ratio.
- Henriques, Caseiro, Martins, Batista, "High-Speed Tracking with Kernelized Correlation Filters", TPAMI 2015 (KCF): a
  search window larger than the object, faded out towards its border, and channels of gradients. The kernel is linear.
- Danelljan, Häger, Khan, Felsberg, "Accurate Scale Estimation for Robust Visual Tracking", BMVC 2014 (DSST): several
  channels with one denominator. Its search over scales is left out: a search over three took at least three times
  as long, and the sizes that a motion model expects were better on most real videos (docs/benchmarks/tracking.md).

Nothing loops over patches or pixels: resampling, gradients and Fourier transforms each take the patches of all objects
in one call of OpenCV or NumPy, which release the interpreter lock. Images are neither kept beyond a `Pyramid` nor
changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma

Floats = npt.NDArray[np.float32]
Complex = npt.NDArray[np.complex64]

CELLS = 32
"""S: cells of a window along each side, the grid of a filter."""
SAMPLES = 2 * CELLS
"""Samples of the image along each side of a window."""
CHANNELS = 4
HALF = CELLS // 2 + 1
"""Columns of the transform of real values."""
PADDING = np.float32(2.2)
"""Side of the search window, in sides of the box."""
PEAK_WIDTH = 0.08
"""Standard deviation of the wanted peak, in sides of the box."""
REACH = 12
"""Cells between the middle of the window and a peak, at most."""
SIDELOBE = 5
"""Cells around a peak, to each side, that do not belong to its sidelobes."""
REGULARISATION = np.float32(0.01)
"""Added to a denominator, in parts of its mean."""
CONTRAST = np.float32(4.0)
"""Gradients much smaller than this, in grey levels, count little: noise of the camera is not a texture."""
MOST_HALVINGS = 6
LARGEST_MAP = 30_000
"""Rows that OpenCV resamples in one call, at most."""
TINY = np.float32(1e-6)


class Pyramid:
    """An image (H, W) uint8 and its halves, which are made when needed."""

    def __init__(self, image: Luma) -> None:
        self._levels = [image]

    @property
    def size_wh(self) -> tuple[int, int]:
        height, width = self._levels[0].shape
        return width, height

    def level(self, halvings: int) -> Luma:
        """Return the image, halved so many times or as often as it has pixels for."""
        from sightline_plugins.opencv import cv2

        while len(self._levels) <= halvings and min(self._levels[-1].shape) >= 2:
            height, width = self._levels[-1].shape
            half = cv2.resize(self._levels[-1], (width // 2, height // 2), interpolation=cv2.INTER_AREA)
            self._levels.append(np.asarray(half, np.uint8))
        return self._levels[min(halvings, len(self._levels) - 1)]

    def windows(self, centre: Floats, span: Floats) -> Floats:
        """Return the brightness (N, 2 S, 2 S) of windows with these centres and spans (N, 2), in pixels.

        Each window is sampled from the level whose pixels are nearest to its samples in size. Beyond the border the
        image goes on as it ends there.
        """
        step = span / np.float32(SAMPLES)
        halvings = np.log2(np.maximum(np.sqrt(step.prod(axis=1)), 1)).round().astype(np.intp)
        halvings = np.minimum(halvings, MOST_HALVINGS)
        found = np.empty((len(centre), SAMPLES, SAMPLES), np.float32)
        at_once = LARGEST_MAP // SAMPLES
        for number in np.unique(halvings).tolist():
            rows = (halvings == number).nonzero()[0]
            for first in range(0, len(rows), at_once):
                some = rows[first : first + at_once]
                found[some] = self._sampled(self.level(number), centre[some], span[some])
        return found

    def _sampled(self, image: Luma, centre: Floats, span: Floats) -> Floats:
        from sightline_plugins.opencv import cv2

        height, width = image.shape
        shrunk = np.array([self.size_wh[0] / width, self.size_wh[1] / height], np.float32)
        offset = ((np.arange(SAMPLES) + 0.5) / SAMPLES - 0.5).astype(np.float32)
        place = (centre[:, :, None] + span[:, :, None] * offset) / shrunk[:, None] - np.float32(0.5)
        shape = (len(centre), SAMPLES, SAMPLES)
        x_map = np.broadcast_to(place[:, 0, None, :], shape).reshape(-1, SAMPLES)
        y_map = np.broadcast_to(place[:, 1, :, None], shape).reshape(-1, SAMPLES)
        sampled = cv2.remap(image, x_map, y_map, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(sampled, np.float32).reshape(shape)


def spectra(pyramid: Pyramid, centre: Floats, size: Floats) -> Complex:
    """Return the transformed channels (N, C, S, S / 2 + 1) of the windows around boxes of centre and size (N, 2)."""
    return np.asarray(np.fft.rfft2(channels(pyramid.windows(centre, size * PADDING))), np.complex64)


def channels(windows: Floats) -> Floats:
    """Return features (N, C, S, S) of windows (N, 2 S, 2 S): gradients to the right, left, bottom and top.

    As in histograms of oriented gradients, they are pooled in cells and divided by the gradients in their cell and in
    the whole window, so that neither light nor contrast count.
    """
    padded = np.pad(windows, ((0, 0), (1, 1), (1, 1)), mode="edge")
    found = np.empty((len(windows), CHANNELS, CELLS, CELLS), np.float32)
    across = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    for number, gradient in enumerate(across):
        ahead = pooled(np.maximum(gradient, 0))
        found[:, 2 * number] = ahead
        found[:, 2 * number + 1] = ahead - pooled(gradient)
    energy = np.sqrt((found * found).sum(axis=1, keepdims=True))
    energy += energy.mean(axis=(2, 3), keepdims=True) + CONTRAST
    found *= FADE / energy
    return found


def pooled(samples: Floats) -> Floats:
    """Return the means (N, S, S) of 2 x 2 samples (N, 2 S, 2 S)."""
    rows = samples[:, 0::2] + samples[:, 1::2]
    means: Floats = (rows[..., 0::2] + rows[..., 1::2]) * np.float32(0.25)
    return means


def learned(spectrum: Complex) -> tuple[Complex, Floats]:
    """Return numerators (N, C, S, S / 2 + 1) and denominators (N, S, S / 2 + 1) of filters for these spectra.

    Means of both over several images are those of a filter for all of them.
    """
    denominator: Floats = (spectrum.real**2 + spectrum.imag**2).sum(axis=1)
    return WANTED * spectrum, denominator


def responses(numerator: Complex, denominator: Floats, spectrum: Complex) -> Floats:
    """Return the correlation (N, S, S) of filters with spectra, the middle of the window at `CELLS // 2`."""
    correlated = (numerator.conj() * spectrum).sum(axis=1)
    floor = denominator.mean(axis=(1, 2), keepdims=True) * REGULARISATION + TINY
    response = np.asarray(np.fft.irfft2(correlated / (denominator + floor), s=(CELLS, CELLS)), np.float32)
    return np.roll(response, (CELLS // 2, CELLS // 2), axis=(1, 2))


@dataclass(frozen=True, slots=True, eq=False)
class Peaks:
    """The highest peak of N responses.

    offset  float32 (N, 2)  from the middle of the window, x and y, in sides of the box
    height  float32 (N,)    1 for the patch that the filter learned
    ratio   float32 (N,)    how far it stands out: peak-to-sidelobe ratio
    """

    offset: Floats
    height: Floats
    ratio: Floats


def peaks(response: Floats) -> Peaks:
    """Find the peaks of responses (N, S, S) within reach of the middle, between cells by a parabola."""
    middle, each = CELLS // 2, np.arange(len(response))
    near = slice(middle - REACH, middle + REACH + 1)
    best = response[:, near, near].reshape(len(response), -1).argmax(axis=1)
    row, column = (part + middle - REACH for part in np.divmod(best, 2 * REACH + 1))
    height = response[each, row, column]
    x = column + vertex(response[each, row, column - 1], height, response[each, row, column + 1])
    y = row + vertex(response[each, row - 1, column], height, response[each, row + 1, column])
    offset = ((np.stack([x, y], axis=1) - middle) / CELLS).astype(np.float32) * PADDING
    return Peaks(offset, height, _sidelobe_ratio(response, height, row, column))


def _sidelobe_ratio(
    response: Floats, height: Floats, row: npt.NDArray[np.intp], column: npt.NDArray[np.intp]
) -> Floats:
    axis = np.arange(CELLS)
    in_row, in_column = (np.abs(axis - place[:, None]) <= SIDELOBE for place in (row, column))
    aside = np.where(in_row[:, :, None] & in_column[:, None, :], 0, response)
    count = (CELLS * CELLS - in_row.sum(axis=1) * in_column.sum(axis=1)).astype(np.float32)
    mean = aside.sum(axis=(1, 2)) / count
    variance = (aside * aside).sum(axis=(1, 2)) / count - mean * mean
    ratio: Floats = (height - mean) / np.sqrt(np.maximum(variance, TINY))
    return ratio


def vertex(before: Floats, peak: Floats, after: Floats) -> Floats:
    """Return where the parabola through three values is highest, from -0.5 to 0.5 of their distance."""
    bend = np.minimum(before - 2 * peak + after, -TINY)
    place: Floats = ((before - after) / (2 * bend)).clip(-0.5, 0.5)
    return place


def _fade() -> Floats:
    ramp = np.hanning(CELLS + 2)[1:-1]
    return np.outer(ramp, ramp).astype(np.float32)


def _wanted() -> Complex:
    """Return the transform of the wanted peak (S, S / 2 + 1), a Gaussian; it is symmetric, hence real."""
    distance = np.fft.fftfreq(CELLS, 1 / CELLS) * float(PADDING) / CELLS
    bell = np.exp(-0.5 * (distance / PEAK_WIDTH) ** 2)
    return np.asarray(np.fft.rfft2(np.outer(bell, bell)).real, np.complex64)


FADE = _fade()
WANTED = _wanted()
