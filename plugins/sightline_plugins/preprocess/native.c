/* Pre-processing of whole images: planes of luma and chroma are resized and converted row by row, so that what a row
 * needs is still in the cache when it is needed.
 *
 * The arithmetic is that of the libraries that people use, to the bit: OpenCV's `resize` and `transform`, FFmpeg's
 * swscale. `fused.py` makes the tables and says what they mean. */

#include <string.h>

#include "native/native.h"

#if defined(X86_64)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))
#endif

enum { UNIT = 16, GROUPS = 4, WINDOW = 16, MOST_TAPS = 256, MOST_ROWS = 3 };

/* Bits that are cut off along rows, and when rows become one. */
enum { MIXTURE_SHIFT = 4, AVERAGE_SHIFT = 7, AVERAGE_BITS = 19, AVERAGE_HALF = 1 << (AVERAGE_BITS - 1) };

/* How planes of one size are resized. Columns come in units of 16, in groups of 4 that lie in the order 0, 2, 1, 3. In
 * a step, each column of a group adds two of the 16 bytes from `starts` on (`picks`: pairs of 16 bits, 0x80 is zero) by
 * their `across`. Each row adds `taps` of `rows` by their `down`; those of no weight are not there. */
typedef struct {
    const int32_t *starts; /* (units, steps, 4) */
    const uint8_t *picks;  /* (units, steps, 4, 16) */
    const int16_t *across; /* (units, steps, 4, 8) */
    const int32_t *rows;   /* (rows, taps) */
    const int16_t *down;   /* (rows, taps) */
    int32_t units, steps, taps;
    int32_t ring;      /* Rows that are kept: taps, rounded up to a power of two. */
    int32_t averages;  /* As swscale averages; else as OpenCV mixes the two nearest. */
    int32_t row_bytes; /* What may be read of a row. */
} Filter;

/* `planes`: of whole numbers in 1/1024: luma, then of red, green and blue the factors of u and v, and what is added.
 * `image`: luma less black, red of v, green of u and of v, blue of u, in 1/65536 of what eight levels weigh. */
typedef struct {
    int32_t luma, rgb[3][3];
    int16_t image_luma, black, red_v, green_u, green_v, blue_u;
} Colors;

typedef struct {
    Filter luma, chroma;
    Colors colors;
    int32_t left, top;               /* Where the region begins in the plane of luma. */
    int32_t chroma_left, chroma_top; /* In bytes and rows of the planes of chroma. */
    int32_t chroma_step;             /* Bytes from a sample of chroma to the next. */
    int32_t down_shift;              /* By which chroma is lower than luma. */
    int32_t image_width;             /* Of the region. */
    int32_t width, height;           /* Of what is made of it. */
    int32_t is_bgr;
    ptrdiff_t start, pitch; /* Where that begins in the network's input, and bytes from a row to the next. */
} Plan;

static int clipped(int value) { return value < 0 ? 0 : value > 255 ? 255 : value; }

static int16_t saturated(int value) { return (int16_t)(value < -32768 ? -32768 : value > 32767 ? 32767 : value); }

/* ---- Along a row ---- */

static void resize_row_plainly(const Filter *filter, const uint8_t *row, int16_t *out) {
    static const int order[GROUPS] = {0, 2, 1, 3};
    const int shift = filter->averages ? AVERAGE_SHIFT : MIXTURE_SHIFT;
    ptrdiff_t step = 0;
    for (int unit = 0; unit < filter->units; unit++, out += UNIT) {
        int32_t sums[UNIT] = {0};
        for (int count = 0; count < filter->steps; count++, step++)
            for (int group = 0; group < GROUPS; group++) {
                const uint8_t *window = row + filter->starts[GROUPS * step + group];
                const uint8_t *picks = filter->picks + WINDOW * (GROUPS * step + group);
                const int16_t *across = filter->across + WINDOW / 2 * (GROUPS * step + group);
                for (int tap = 0; tap < WINDOW / 2; tap++)
                    if (picks[2 * tap] < WINDOW)
                        sums[4 * order[group] + tap / 2] += window[picks[2 * tap]] * across[tap];
            }
        for (int column = 0; column < UNIT; column++)
            out[column] = saturated(sums[column] >> shift);
    }
}

#if defined(X86_64)
AVX2_INLINE __m256i two_groups(const uint8_t *row, const int32_t *starts, __m256i picks, __m256i across) {
    __m128i low = _mm_loadu_si128((const __m128i *)(row + starts[0]));
    __m128i high = _mm_loadu_si128((const __m128i *)(row + starts[1]));
    return _mm256_madd_epi16(_mm256_shuffle_epi8(_mm256_set_m128i(high, low), picks), across);
}

AVX2_INLINE void shuffle_rows(const Filter *filter, int steps, int shift, int count, const uint8_t *const *rows,
                                     int16_t *out, ptrdiff_t distance) {
    const int32_t *starts = filter->starts;
    const __m256i *picks = (const __m256i *)filter->picks, *across = (const __m256i *)filter->across;
    const uint8_t *row[MOST_ROWS];
    for (int n = 0; n < count; n++)
        row[n] = rows[n];
    for (const int16_t *end = out + UNIT * filter->units; out < end; out += UNIT) {
        __m256i even[MOST_ROWS], odd[MOST_ROWS];
        for (int n = 0; n < count; n++)
            even[n] = odd[n] = _mm256_setzero_si256();
        for (int step = 0; step < steps; step++, starts += GROUPS, picks += 2, across += 2) {
            __m256i picked = _mm256_loadu_si256(picks), factors = _mm256_loadu_si256(across);
            for (int n = 0; n < count; n++)
                even[n] = _mm256_add_epi32(even[n], two_groups(row[n], starts, picked, factors));
            picked = _mm256_loadu_si256(picks + 1), factors = _mm256_loadu_si256(across + 1);
            for (int n = 0; n < count; n++)
                odd[n] = _mm256_add_epi32(odd[n], two_groups(row[n], starts + 2, picked, factors));
        }
        for (int n = 0; n < count; n++) {
            __m256i packed = _mm256_packs_epi32(_mm256_srai_epi32(even[n], shift), _mm256_srai_epi32(odd[n], shift));
            _mm256_storeu_si256((__m256i *)(out + n * distance), packed);
        }
    }
}

AVX2_INLINE void shuffle_counted(const Filter *filter, int count, const uint8_t *const *rows, int16_t *out,
                                        ptrdiff_t distance) {
    if (!filter->averages && filter->steps == 1)
        shuffle_rows(filter, 1, MIXTURE_SHIFT, count, rows, out, distance);
    else if (!filter->averages)
        shuffle_rows(filter, filter->steps, MIXTURE_SHIFT, count, rows, out, distance);
    else if (filter->steps == 2)
        shuffle_rows(filter, 2, AVERAGE_SHIFT, count, rows, out, distance);
    else
        shuffle_rows(filter, filter->steps, AVERAGE_SHIFT, count, rows, out, distance);
}

AVX2 static void resize_rows_by_shuffles(const Filter *filter, int count, const uint8_t *const *rows, int16_t *out,
                                         ptrdiff_t distance) {
    if (count == 1)
        shuffle_counted(filter, 1, rows, out, distance);
    else if (count == 2)
        shuffle_counted(filter, 2, rows, out, distance);
    else
        shuffle_counted(filter, 3, rows, out, distance);
}

/* Clang does not find the instruction for the upper half of a product here. Returns how many columns are done. */
AVX2 static int mix_rows_by_halves(const int16_t *upper, const int16_t *lower, int16_t by_upper, int16_t by_lower,
                                   int width, uint8_t *out) {
    const __m256i above = _mm256_set1_epi16(by_upper), below = _mm256_set1_epi16(by_lower), half = _mm256_set1_epi16(2);
    int x = 0;
    for (; x + UNIT <= width; x += UNIT) {
        __m256i first = _mm256_mulhi_epi16(_mm256_loadu_si256((const __m256i *)(upper + x)), above);
        __m256i second = _mm256_mulhi_epi16(_mm256_loadu_si256((const __m256i *)(lower + x)), below);
        __m256i sum = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(first, second), half), 2);
        __m128i levels = _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_storeu_si128((__m128i *)(out + x), levels);
    }
    return x;
}

AVX2_INLINE int average_pairs(const int16_t *const *rows, const int32_t *pairs, int count, int width,
                                     uint8_t *out) {
    int x = 0;
    for (; x + UNIT <= width; x += UNIT) {
        __m256i low = _mm256_set1_epi32(AVERAGE_HALF), high = low;
        for (int pair = 0; pair < count; pair++) {
            const __m256i weights = _mm256_set1_epi32(pairs[pair]);
            __m256i first = _mm256_loadu_si256((const __m256i *)(rows[2 * pair] + x));
            __m256i second = _mm256_loadu_si256((const __m256i *)(rows[2 * pair + 1] + x));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(first, second), weights));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(first, second), weights));
        }
        __m256i sums =
            _mm256_packs_epi32(_mm256_srai_epi32(low, AVERAGE_BITS), _mm256_srai_epi32(high, AVERAGE_BITS));
        __m128i levels = _mm_packus_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        _mm_storeu_si128((__m128i *)(out + x), levels);
    }
    return x;
}

/* Returns how many columns are done. There is a row behind the last, whatever it is, for one that has no partner. */
AVX2 static int average_rows_by_pairs(const int16_t *const *rows, const int16_t *down, int count, int width,
                                      uint8_t *out) {
    int32_t pairs[MOST_TAPS / 2];
    for (int row = 0; row < count; row += 2) {
        uint16_t second = row + 1 < count ? (uint16_t)down[row + 1] : 0;
        pairs[row / 2] = (int32_t)((uint32_t)second << 16 | (uint16_t)down[row]);
    }
    if (count <= 2)
        return average_pairs(rows, pairs, 1, width, out);
    if (count <= 4)
        return average_pairs(rows, pairs, 2, width, out);
    return average_pairs(rows, pairs, (count + 1) / 2, width, out);
}

static int has_avx2(void) { return __builtin_cpu_supports("x86-64-v3"); }
#endif

/* Rows of planes, resized: 11 bits of a mixture, 15 of an average, `distance` from each to the next. */
static void resize_rows(const Filter *filter, int count, const uint8_t *const *rows, int16_t *out,
                        ptrdiff_t distance) {
#if defined(X86_64)
    if (filter->row_bytes >= WINDOW && has_avx2()) {
        resize_rows_by_shuffles(filter, count, rows, out, distance);
        return;
    }
#endif
    for (int n = 0; n < count; n++)
        resize_row_plainly(filter, rows[n], out + n * distance);
}

/* ---- Rows into one ---- */

static void mix_rows(const int16_t *upper, const int16_t *lower, int16_t by_upper, int16_t by_lower, int width,
                     uint8_t *out) {
    int x = 0;
#if defined(X86_64)
    if (has_avx2())
        x = mix_rows_by_halves(upper, lower, by_upper, by_lower, width, out);
#endif
    for (; x < width; x++)
        out[x] = (uint8_t)((((upper[x] * by_upper) >> 16) + ((lower[x] * by_lower) >> 16) + 2) >> 2);
}

static void average_rows(const int16_t *const *rows, const int16_t *down, int count, int width, uint8_t *out) {
    int x = 0;
#if defined(X86_64)
    if (has_avx2())
        x = average_rows_by_pairs(rows, down, count, width, out);
#endif
    for (; x < width; x++) {
        int32_t sum = AVERAGE_HALF;
        for (int row = 0; row < count; row++)
            sum += rows[row][x] * down[row];
        out[x] = (uint8_t)clipped(sum >> AVERAGE_BITS);
    }
}

/* Row `number` of what is resized, from those in a ring, `distance` from each to the next. */
static void join_rows(const Filter *filter, int number, const int16_t *ring, ptrdiff_t distance, uint8_t *out) {
    const int32_t *rows = filter->rows + (ptrdiff_t)number * filter->taps;
    const int16_t *weights = filter->down + (ptrdiff_t)number * filter->taps;
    const int16_t *joined[MOST_TAPS + 1];
    int16_t down[MOST_TAPS];
    int count = 0;
    for (int tap = 0; tap < filter->taps; tap++) {
        if (!weights[tap])
            continue;
        joined[count] = ring + (rows[tap] & (filter->ring - 1)) * distance;
        down[count++] = weights[tap];
    }
    joined[count] = joined[0];
    if (filter->averages)
        average_rows(joined, down, count, UNIT * filter->units, out);
    else
        mix_rows(joined[0], joined[count - 1], down[0], count > 1 ? down[1] : 0, UNIT * filter->units, out);
}

/* ---- Colours ---- */

static inline void convert_planes(const Colors *colors, const uint8_t *restrict y, const uint8_t *restrict u,
                                  const uint8_t *restrict v, int width, int first, uint8_t *restrict out) {
    const int16_t luma = (int16_t)colors->luma, red_v = (int16_t)colors->rgb[0][1];
    const int16_t green_u = (int16_t)colors->rgb[1][0], green_v = (int16_t)colors->rgb[1][1];
    const int16_t blue_u = (int16_t)colors->rgb[2][0];
    const int red = colors->rgb[0][2], green = colors->rgb[1][2], blue = colors->rgb[2][2];
    for (int x = 0; x < width; x++) {
        int level = y[x] * luma;
        out[3 * x + first] = (uint8_t)clipped((level + v[x] * red_v + red) >> 10);
        out[3 * x + 1] = (uint8_t)clipped((level + u[x] * green_u + v[x] * green_v + green) >> 10);
        out[3 * x + 2 - first] = (uint8_t)clipped((level + u[x] * blue_u + blue) >> 10);
    }
}

VECTORISED static void put_planes(const Plan *plan, const uint8_t *y, const uint8_t *u, const uint8_t *v,
                                  uint8_t *out) {
    if (plan->is_bgr)
        convert_planes(&plan->colors, y, u, v, plan->width, 2, out);
    else
        convert_planes(&plan->colors, y, u, v, plan->width, 0, out);
}

VECTORISED static void put_colors(const uint8_t *restrict first, const uint8_t *restrict second,
                                  const uint8_t *restrict third, int width, uint8_t *restrict out) {
    for (int x = 0; x < width; x++) {
        out[3 * x] = first[x];
        out[3 * x + 1] = second[x];
        out[3 * x + 2] = third[x];
    }
}

static inline void put_twice(int16_t *out, int x, int value) {
    uint32_t both = (uint16_t)value * 0x10001u;
    memcpy(out + 2 * x, &both, sizeof both);
}

/* What a row of chroma adds to red, green and blue: for each pixel across that it covers. */
static inline void add_chroma(const Colors *colors, const uint8_t *restrict u, const uint8_t *restrict v, int step,
                              int width, int16_t *restrict red, int16_t *restrict green, int16_t *restrict blue) {
    const int16_t red_v = colors->red_v, green_u = colors->green_u, green_v = colors->green_v, blue_u = colors->blue_u;
    for (int x = 0; x < width; x++) {
        int16_t from_u = (int16_t)(u[step * x] * 8 - 1024), from_v = (int16_t)(v[step * x] * 8 - 1024);
        put_twice(red, x, (from_v * red_v) >> 16);
        put_twice(green, x, ((from_u * green_u) >> 16) + ((from_v * green_v) >> 16));
        put_twice(blue, x, (from_u * blue_u) >> 16);
    }
}

VECTORISED static void convert_chroma(const Plan *plan, const uint8_t *u, const uint8_t *v, int16_t *added,
                                      ptrdiff_t distance) {
    const int width = (plan->image_width + 1) / 2;
    if (plan->chroma_step == 2)
        add_chroma(&plan->colors, u, v, 2, width, added, added + distance, added + 2 * distance);
    else
        add_chroma(&plan->colors, u, v, 1, width, added, added + distance, added + 2 * distance);
}

VECTORISED static void convert_luma(const Plan *plan, const uint8_t *restrict y, const int16_t *restrict added,
                                    ptrdiff_t distance, uint8_t *restrict out) {
    const int16_t *red = added, *green = added + distance, *blue = added + 2 * distance;
    uint8_t *reds = out, *greens = out + distance, *blues = out + 2 * distance;
    const int16_t luma = plan->colors.image_luma, black = plan->colors.black;
    for (int x = 0; x < plan->image_width; x++) {
        int16_t level = (int16_t)(((int16_t)(y[x] * 8 - black) * luma) >> 16);
        reds[x] = (uint8_t)clipped((int16_t)(level + red[x]));
        greens[x] = (uint8_t)clipped((int16_t)(level + green[x]));
        blues[x] = (uint8_t)clipped((int16_t)(level + blue[x]));
    }
}

/* ---- Scratch space ---- */

static ptrdiff_t rounded_up(ptrdiff_t size) { return (size + 63) / 64 * 64; }

static void *take(uint8_t **scratch, ptrdiff_t size) {
    void *taken = *scratch;
    *scratch += rounded_up(size);
    return taken;
}

/* Rows of `planes` of the same size that are resized across, and which: row r lies in place r % ring. */
typedef struct {
    const Filter *filter;
    int16_t *values;
    int32_t *held;
    ptrdiff_t columns;
    int planes;
} Ring;

static Ring take_ring(uint8_t **scratch, const Filter *filter, int planes) {
    Ring ring = {filter, 0, 0, rounded_up((ptrdiff_t)UNIT * filter->units), planes};
    ring.values = take(scratch, (ptrdiff_t)sizeof(int16_t) * filter->ring * planes * ring.columns);
    ring.held = take(scratch, (ptrdiff_t)sizeof(int32_t) * filter->ring);
    memset(ring.held, -1, sizeof(int32_t) * (size_t)filter->ring);
    return ring;
}

/* Whether a row has to be put into the ring; it is noted as being there. */
static int is_missing(Ring *ring, int number, int tap, int *row) {
    const Filter *filter = ring->filter;
    *row = filter->rows[(ptrdiff_t)number * filter->taps + tap];
    int32_t *held = ring->held + (*row & (filter->ring - 1));
    if (!filter->down[(ptrdiff_t)number * filter->taps + tap] || *held == *row)
        return 0;
    *held = *row;
    return 1;
}

static void fill_ring(Ring *ring, int row, const uint8_t *const *rows) {
    ptrdiff_t place = (row & (ring->filter->ring - 1)) * ring->planes * ring->columns;
    resize_rows(ring->filter, ring->planes, rows, ring->values + place, ring->columns);
}

/* Row `number` of what is resized, of each plane. */
static void empty_ring(const Ring *ring, int number, uint8_t *out) {
    for (int n = 0; n < ring->planes; n++)
        join_rows(ring->filter, number, ring->values + n * ring->columns, ring->planes * ring->columns,
                  out + n * ring->columns);
}

/* ---- What Python calls ---- */

/* The rows of the region in the planes. */
typedef struct {
    const uint8_t *y, *u, *v;
    ptrdiff_t y_pitch, u_pitch, v_pitch;
} Planes;

static int is_dense(const Array *plane) {
    int last = plane->dimensions - 1;
    return plane->kind == 'u' && plane->item_bytes == 1 && plane->strides[last] == 1 &&
           (last == 1 || plane->strides[1] == plane->shape[2]);
}

/* Returns whether the samples of all rows lie side by side. NV12 has no `v`: it is behind `u`. */
static int find_planes(const Plan *plan, const Array *y, const Array *u, const Array *v, Planes *planes) {
    if (!is_dense(y) || !is_dense(u) || (v && !is_dense(v)))
        return 0;
    planes->y_pitch = y->strides[0], planes->u_pitch = u->strides[0];
    planes->v_pitch = v ? v->strides[0] : planes->u_pitch;
    planes->y = y->data + plan->top * planes->y_pitch + plan->left;
    planes->u = u->data + plan->chroma_top * planes->u_pitch + plan->chroma_left;
    planes->v = (v ? v->data : u->data + 1) + plan->chroma_top * planes->v_pitch + plan->chroma_left;
    return 1;
}

/* Bytes of scratch space that a plan needs, for either function. */
EXPORT ptrdiff_t preprocess_scratch_bytes(const Plan *plan) {
    const Filter *filters[] = {&plan->luma, &plan->chroma};
    ptrdiff_t size = 64, width = rounded_up(plan->image_width + 1);
    for (int n = 0; n < 2; n++) {
        ptrdiff_t columns = rounded_up((ptrdiff_t)UNIT * filters[n]->units);
        size += 3 * (2 * filters[n]->ring * columns + columns + rounded_up(4 * (ptrdiff_t)filters[n]->ring));
    }
    return size + 3 * (2 * width + width);
}

/* Resize the planes, and convert them at the size of the network. Returns 0, as below, where a plane is no row of bytes
 * after the other. */
EXPORT int preprocess_planes(const Plan *plan, const Array *y, const Array *u, const Array *v, uint8_t *out,
                             uint8_t *scratch) {
    Planes planes;
    if (!find_planes(plan, y, u, v, &planes))
        return 0;
    Ring luma = take_ring(&scratch, &plan->luma, 1), chroma = take_ring(&scratch, &plan->chroma, 2);
    uint8_t *levels = take(&scratch, luma.columns), *chromas = take(&scratch, 2 * chroma.columns);
    out += plan->start;
    for (int number = 0; number < plan->height; number++, out += plan->pitch) {
        for (int tap = 0, row; tap < plan->luma.taps; tap++)
            if (is_missing(&luma, number, tap, &row))
                fill_ring(&luma, row, (const uint8_t *[]){planes.y + row * planes.y_pitch});
        for (int tap = 0, row; tap < plan->chroma.taps; tap++)
            if (is_missing(&chroma, number, tap, &row))
                fill_ring(&chroma, row, (const uint8_t *[]){planes.u + row * planes.u_pitch, planes.v + row * planes.v_pitch});
        empty_ring(&luma, number, levels);
        empty_ring(&chroma, number, chromas);
        put_planes(plan, levels, chromas, chromas + chroma.columns, out);
    }
    return 1;
}

/* Convert each pixel of the image, and resize red, green and blue. */
EXPORT int preprocess_image(const Plan *plan, const Array *y, const Array *u, const Array *v, uint8_t *out,
                            uint8_t *scratch) {
    Planes planes;
    if (!find_planes(plan, y, u, v, &planes))
        return 0;
    const ptrdiff_t width = rounded_up(plan->image_width + 1);
    Ring ring = take_ring(&scratch, &plan->luma, 3);
    uint8_t *resized = take(&scratch, 3 * ring.columns), *colors = take(&scratch, 3 * width);
    int16_t *added = take(&scratch, (ptrdiff_t)sizeof(int16_t) * 3 * width);
    const uint8_t *rows[] = {colors, colors + width, colors + 2 * width};
    int chroma_row = -1, first = plan->is_bgr ? 2 : 0;
    out += plan->start;
    for (int number = 0; number < plan->height; number++, out += plan->pitch) {
        for (int tap = 0, row; tap < plan->luma.taps; tap++) {
            if (!is_missing(&ring, number, tap, &row))
                continue;
            if (chroma_row != row >> plan->down_shift) {
                chroma_row = row >> plan->down_shift;
                convert_chroma(plan, planes.u + chroma_row * planes.u_pitch, planes.v + chroma_row * planes.v_pitch, added,
                               width);
            }
            convert_luma(plan, planes.y + row * planes.y_pitch, added, width, colors);
            fill_ring(&ring, row, rows);
        }
        empty_ring(&ring, number, resized);
        put_colors(resized + first * ring.columns, resized + ring.columns, resized + (2 - first) * ring.columns,
                   plan->width, out);
    }
    return 1;
}
