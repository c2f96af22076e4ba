// A pixel of a plane of interleaved samples while it is drawn on.
#pragma once

struct Pixel {
    unsigned char *start;
    int channels;
    int levels[3];
    bool is_changed = false;

    __device__ Pixel(unsigned char *start, int channels) : start(start), channels(channels) {
        for (int channel = 0; channel < channels; ++channel) levels[channel] = start[channel];
    }

    __device__ void store() const {
        if (!is_changed) return;
        for (int channel = 0; channel < channels; ++channel) start[channel] = levels[channel];
    }

    // `ink` holds the samples of a colour, the first in its lowest byte.
    __device__ void fill(unsigned ink) {
        for (int channel = 0; channel < channels; ++channel) levels[channel] = ink >> (8 * channel) & 0xff;
        is_changed = true;
    }

    // Takes `share` of 256 of a colour.
    __device__ void mix(unsigned ink, int share) {
        if (share == 0) return;
        for (int channel = 0; channel < channels; ++channel) {
            const int target = ink >> (8 * channel) & 0xff;
            levels[channel] += ((target - levels[channel]) * share + 127) >> 8;
        }
        is_changed = true;
    }

    // Replaces each level by that of a table (256, channels).
    __device__ void replace(const unsigned char *table) {
        for (int channel = 0; channel < channels; ++channel) {
            levels[channel] = table[levels[channel] * channels + channel];
        }
        is_changed = true;
    }

    // Keeps the share of 255 that comes first in a row, and adds the samples behind it.
    __device__ void warm(const unsigned char *row) {
        for (int channel = 0; channel < channels; ++channel) {
            levels[channel] = (2 * levels[channel] * row[0] + 255) / 510 + row[1 + channel];
        }
        is_changed = true;
    }

    // Takes row `number` of a table (256, channels).
    __device__ void take(const unsigned char *table, int number) {
        for (int channel = 0; channel < channels; ++channel) levels[channel] = table[number * channels + channel];
        is_changed = true;
    }
};
