/* Follow boxes from one image to another by points in them: the pyramid of Lucas and Kanade (Bouguet, 2000) with two levels,
 * on the pixels around the points alone. See following.py.
 *
 * Sums are kept in one lane for each column of a window, so that loops are vectorised and results are the same on every
 * processor. */
#include "native/native.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline)) /* into what is vectorised */

enum { SIDE = 8, RIM = SIDE + 2, LANES = 16, STEPS = 5, ACROSS = 3, POINTS = ACROSS * ACROSS, FEWEST = POINTS / 2 };

static const float EXACTNESS = 0.03f;  /* pixels: a smaller step ends the search */
static const float FLAT = 0.1f;        /* squares of grey levels a pixel: a window is flat along one direction below */
static const float MIDDLE = 0.7f;      /* part of a box, along each side, in which points lie: beyond is mostly background */
static const float SMALLEST = 1.0f;    /* pixels: width and height that a box counts as having at least */
static const float TURNING = 0.01f;    /* pixels: steps that undo one another by as much end halfway */

typedef struct {
    const uint8_t *pixels;
    ptrdiff_t width, height;
} Image;

typedef struct {
    float x, y;
} Point;

typedef struct {
    float value[SIDE][SIDE], slope_x[SIDE][SIDE], slope_y[SIDE][SIDE];
    float xx, xy, yy; /* sums over the window */
} Window;

static ptrdiff_t within(ptrdiff_t place, ptrdiff_t size) { return place < 0 ? 0 : place >= size ? size - 1 : place; }

/* Interpolate `side` rows of LANES columns, of which the first `side` count, from `left` and `top` on. Beyond its border
 * an image goes on as it ends there. */
INLINE void sample(Image image, Point corner, int side, float out[][LANES]) {
    uint8_t copied[(RIM + 1) * (LANES + 1)];
    float left = floorf(corner.x), top = floorf(corner.y), x = corner.x - left, y = corner.y - top;
    ptrdiff_t column = (ptrdiff_t)left, row = (ptrdiff_t)top, stride = image.width;
    const uint8_t *from = image.pixels + row * stride + column;
    if (column < 0 || row < 0 || column + LANES >= image.width || row + side >= image.height) {
        stride = LANES + 1;
        from = copied;
        for (int r = 0; r <= side; r++) {
            const uint8_t *line = image.pixels + within(row + r, image.height) * image.width;
            for (int c = 0; c <= LANES; c++)
                copied[r * stride + c] = line[within(column + c, image.width)];
        }
    }
    float a = (1 - x) * (1 - y), b = x * (1 - y), c = (1 - x) * y, d = x * y;
    int columns = side > SIDE ? LANES : SIDE;
    for (int r = 0; r < side; r++, from += stride)
        for (int lane = 0; lane < columns; lane++)
            out[r][lane] = a * from[lane] + b * from[lane + 1] + c * from[stride + lane] + d * from[stride + lane + 1];
}

INLINE float total(const float lanes[SIDE]) {
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/* Take the window around a point; slopes are Scharr's. */
INLINE void take(Image image, Point point, Window *window) {
    float around[RIM][LANES], xx[SIDE] = {0}, xy[SIDE] = {0}, yy[SIDE] = {0};
    sample(image, (Point){point.x - (RIM - 1) * 0.5f, point.y - (RIM - 1) * 0.5f}, RIM, around);
    for (int r = 0; r < SIDE; r++) {
        const float *above = around[r], *here = around[r + 1], *below = around[r + 2];
        for (int c = 0; c < SIDE; c++) {
            float x = (3 * (above[c + 2] - above[c]) + 10 * (here[c + 2] - here[c]) + 3 * (below[c + 2] - below[c])) / 32;
            float y = (3 * (below[c] - above[c]) + 10 * (below[c + 1] - above[c + 1]) + 3 * (below[c + 2] - above[c + 2])) / 32;
            window->value[r][c] = here[c + 1];
            window->slope_x[r][c] = x;
            window->slope_y[r][c] = y;
            xx[c] += x * x;
            xy[c] += x * y;
            yy[c] += y * y;
        }
    }
    window->xx = total(xx);
    window->xy = total(xy);
    window->yy = total(yy);
}

static int is_near(Image image, Point point) {
    return point.x >= -SIDE && point.y >= -SIDE && point.x < (float)image.width + SIDE && point.y < (float)image.height + SIDE;
}

/* Search for the content around `point` of an image in another one, from `guess` on, which is then where it is. Return
 * whether there was anything to follow. */
INLINE int search(Image before, Image now, Point point, Point *guess) {
    Window window;
    float seen[SIDE][LANES];
    Point last = {0, 0};
    if (!is_near(before, point))
        return 0;
    take(before, point, &window);
    float determinant = window.xx * window.yy - window.xy * window.xy, half = window.xx - window.yy;
    float least = (window.xx + window.yy - sqrtf(half * half + 4 * window.xy * window.xy)) / 2;
    if (!(least >= FLAT * SIDE * SIDE) || !(determinant > 0))
        return 0;
    for (int step = 0; step < STEPS; step++) {
        float x[SIDE] = {0}, y[SIDE] = {0};
        if (!is_near(now, *guess))
            return 0;
        sample(now, (Point){guess->x - (SIDE - 1) * 0.5f, guess->y - (SIDE - 1) * 0.5f}, SIDE, seen);
        for (int r = 0; r < SIDE; r++)
            for (int c = 0; c < SIDE; c++) {
                float difference = window.value[r][c] - seen[r][c];
                x[c] += difference * window.slope_x[r][c];
                y[c] += difference * window.slope_y[r][c];
            }
        float along_x = total(x), along_y = total(y);
        Point moved = {(window.yy * along_x - window.xy * along_y) / determinant,
                       (window.xx * along_y - window.xy * along_x) / determinant};
        guess->x += moved.x;
        guess->y += moved.y;
        if (moved.x * moved.x + moved.y * moved.y <= EXACTNESS * EXACTNESS)
            break;
        if (step && fabsf(moved.x + last.x) < TURNING && fabsf(moved.y + last.y) < TURNING) {
            guess->x -= moved.x / 2;
            guess->y -= moved.y / 2;
            break;
        }
        last = moved;
    }
    return is_near(now, *guess);
}

typedef struct {
    float left, top, right, bottom;
} Box;

static inline Point centre(Box box) { return (Point){(box.left + box.right) / 2, (box.top + box.bottom) / 2}; }

static inline float wider(float size) { return size > SMALLEST ? size : SMALLEST; }

/* Sort a few values and return the middle, or the mean of the two in the middle. */
static float median(float *values, int count) {
    for (int number = 1; number < count; number++) {
        float value = values[number];
        int place = number;
        for (; place && values[place - 1] > value; place--)
            values[place] = values[place - 1];
        values[place] = value;
    }
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Return how far the content of a box has moved, in pixels of the source, of which each pixel of the images has `scale`;
 * `expected` where it is not followed. */
INLINE Point shift(const Image large[2], const Image small[2], Box box, float scale, Point expected) {
    float along_x[POINTS], along_y[POINTS];
    int count = 0;
    Point middle = centre(box);
    for (int number = 0; number < POINTS; number++) {
        float x = ((number % ACROSS + 0.5f) / ACROSS - 0.5f) * MIDDLE, y = ((number / ACROSS + 0.5f) / ACROSS - 0.5f) * MIDDLE;
        x = middle.x + (box.right - box.left) * x;
        y = middle.y + (box.bottom - box.top) * y;
        Point point = {(x + 0.5f) / scale - 0.5f, (y + 0.5f) / scale - 0.5f};
        Point there = {point.x + expected.x / scale, point.y + expected.y / scale};
        Point half = {point.x / 2 - 0.25f, point.y / 2 - 0.25f}, guess = {there.x / 2 - 0.25f, there.y / 2 - 0.25f};
        if (search(small[0], small[1], half, &guess))
            there = (Point){2 * guess.x + 0.5f, 2 * guess.y + 0.5f};
        if (!search(large[0], large[1], point, &there))
            continue;
        along_x[count] = (there.x - point.x) * scale;
        along_y[count++] = (there.y - point.y) * scale;
    }
    return count < FEWEST ? expected : (Point){median(along_x, count), median(along_y, count)};
}

VECTORISED static void follow(const Image large[2], const Image small[2], float scale, ptrdiff_t boxes, const Box *from,
                              const Box *before, const Box *expected, Box *moved) {
    for (ptrdiff_t number = 0; number < boxes; number++) {
        Box box = from[number], was = before[number], is = expected[number];
        Point middle = centre(box), last = centre(was), next = centre(is);
        Point by = shift(large, small, box, scale, (Point){next.x - last.x, next.y - last.y});
        float width = (box.right - box.left) * ((is.right - is.left) / wider(was.right - was.left)) / 2;
        float height = (box.bottom - box.top) * ((is.bottom - is.top) / wider(was.bottom - was.top)) / 2;
        middle = (Point){middle.x + by.x, middle.y + by.y};
        moved[number] = (Box){middle.x - width, middle.y - height, middle.x + width, middle.y + height};
    }
}

/* Follow `boxes` of an image (height, width) and its half in another one: `moved` is where it shows them. A motion model
 * has them at `before` and at `expected`. Boxes are in pixels of the source, of which each pixel of the images has
 * `scale`. */
EXPORT void follow_boxes(ptrdiff_t width, ptrdiff_t height, const uint8_t *before_image, const uint8_t *before_half,
                         const uint8_t *now_image, const uint8_t *now_half, float scale, ptrdiff_t boxes, const Box *from,
                         const Box *before, const Box *expected, Box *moved) {
    Image large[2] = {{before_image, width, height}, {now_image, width, height}};
    ptrdiff_t half_width = width > 1 ? width / 2 : 1, half_height = height > 1 ? height / 2 : 1;
    Image small[2] = {{before_half, half_width, half_height}, {now_half, half_width, half_height}};
    follow(large, small, scale, boxes, from, before, expected, moved);
}
