// Drawing on surfaces in place: a list of commands for each plane, in order. A block draws a tile of a plane; it looks
// which commands reach its tile and then goes through these, each thread with pixels of its own, so that later commands
// are drawn over earlier ones and no thread waits for another's pixel.
#include "strokes.cuh"

constexpr int TILE = 32, ROWS = 8, THREADS = TILE * ROWS;

enum Kind { FILL, TEXT, TINT, AREA, STROKE, HEAT };

// A plane, its part of the commands, and where the data of its image and the points of its own lines begin.
struct Sheet {
    unsigned char *start;
    long long pitch_bytes;
    long long data, points;
    int width, height, channels;
    int first, count;
    int unused;
};

// What is drawn into the rectangle left .. right, top .. bottom (half-open) of a plane. `data` and `table` are places in
// the image's data, which begin with `Smoothness`.
//
// FILL    the rectangle, with `ink`
// TEXT    `data` holds the coverage of each pixel, rows `pitch` bytes apart: which row of `table` (256, channels) it gets
// TINT    `data` holds a mask, a bit for each pixel of the image, rows `pitch` bits apart; pixel (0, 0) of the plane is
//         bit (x, y), and the next pixels are `across` and `down` bits further; `table` says what levels become
// AREA    `data` holds the `count` edges of a polygon whose inside, by the even-odd rule, is tinted by `table`
// STROKE  `count` pieces of a line, from the plane's point number `data` (x, y in 1 / 16 of a sample) to the next ones;
//         `round_start` says that the first one has a round start, all have round ends: smooth ones with
//         `corner_count` corners, else half widths of rows, in `table`
// HEAT    `data` holds the levels of a grid of `count` rows and `pitch` columns over the plane; `table` (256, 1 +
//         channels) says of each level how much of 255 is kept, and what is added
struct Command {
    int kind;
    int left, top, right, bottom;
    unsigned ink;
    int data, pitch, table, count;
    int x, y, across, down;
    int width, round_start, is_smooth, radius, corner_count;
    int unused;
};

// An edge of a polygon: the line that is drawn along it, in whole pixels (none when `is_drawn` is 0), and where its inner
// side is in the rows that it crosses. Counted from the corner of the command's rectangle.
struct Edge {
    int x, y, x_end, y_end;
    int is_drawn, top, bottom, unused;
    Fixed start, step;
};

// What a line needs besides a command: its points, and the data of the image.
struct Ways {
    const int2 *points;
    const unsigned char *data;
};

// Whether a piece of a line comes near the middle of a square of some samples; what it does not is found out cheaply.
__device__ inline bool comes_near(const int2 &from, const int2 &to, int width, int x, int y, int size) {
    const float across = to.x - from.x, down = to.y - from.y;
    const float distance = fabsf(across * (16 * y - from.y) - down * (16 * x - from.x));
    const float length = sqrtf(across * across + down * down);
    return distance <= 16 * (width + size + 8) * length || length == 0;
}

// Whether a command may have something to draw in a tile. A line that slants lies in few of its rectangle's tiles.
__device__ inline bool reaches(const Command &command, const Ways &ways, int left, int top) {
    if (command.left >= left + TILE || command.right <= left || command.top >= top + TILE || command.bottom <= top) {
        return false;
    }
    if (command.kind != STROKE) return true;
    for (const int2 *piece = ways.points + command.data, *end = piece + command.count; piece < end; ++piece) {
        if (comes_near(piece[0], piece[1], command.width, left + TILE / 2, top + TILE / 2, TILE)) return true;
    }
    return false;
}

__device__ inline bool area_covers(const Edge *edges, int count, int x, int y) {
    int before = 0;
    bool is_touched = false;
    for (int number = 0; number < count; ++number) {
        const Edge &edge = edges[number];
        if (edge.is_drawn && whole_line_touches(edge.x, edge.y, edge.x_end, edge.y_end, x, y)) is_touched = true;
        if (y < edge.top || y >= edge.bottom) continue;
        const Fixed crossing = edge.start + (y - edge.top) * edge.step;
        before += crossing < x * ONE;
        if (crossing == x * ONE) is_touched = true;
    }
    return is_touched || before % 2;
}

__device__ inline bool mask_covers(const unsigned char *bits, const Command &command, int x, int y) {
    const long long column = command.x + (long long)x * command.across, row = command.y + (long long)y * command.down;
    const long long bit = row * command.pitch + column;
    return bits[bit / 8] >> (7 - bit % 8) & 1;
}

// Where a sample of `size` ones is in a row of cells: the cell before it, and the 256ths on the way to the next one.
__device__ inline int2 place_of(int sample, int cells, int size) {
    const long long place = (2ll * sample + 1) * cells * 128 / size - 128;
    const int inside = place < 0 ? 0 : place > (cells - 1) * 256ll ? (cells - 1) * 256 : (int)place;
    return {inside >> 8, inside & 255};
}

// Bilinear between the middles of the cells.
__device__ inline int heat_level(const unsigned char *levels, const Command &command, const Extent &extent, int x, int y) {
    const int columns = command.pitch, rows = command.count;
    const int2 across = place_of(x, columns, extent.width), down = place_of(y, rows, extent.height);
    const unsigned char *above = levels + (long long)down.x * columns;
    const unsigned char *below = levels + (long long)min(down.x + 1, rows - 1) * columns;
    const int next = min(across.x + 1, columns - 1);
    const int upper = above[across.x] * (256 - across.y) + above[next] * across.y;
    const int lower = below[across.x] * (256 - across.y) + below[next] * across.y;
    return (upper * (256 - down.y) + lower * down.y + 32768) >> 16;
}

__device__ inline Point point_at(const int2 &point) { return {point.x * (ONE / 16), point.y * (ONE / 16)}; }

__device__ inline void draw_pieces(
    Pixel &pixel, const Command &command, const Extent &extent, const Ways &ways, int x, int y) {
    const unsigned char *ends = ways.data + command.table;
    const Pen pen = {
        reinterpret_cast<const Smoothness *>(ways.data), ends, reinterpret_cast<const Offset *>(ends), command.radius,
        command.corner_count};
    const int2 *points = ways.points + command.data;
    for (int piece = 0; piece < command.count; ++piece) {
        if (!comes_near(points[piece], points[piece + 1], command.width, x, y, 0)) continue;
        const int round_ends = command.round_start && piece == 0 ? 3 : 2;
        const Stroke stroke = {
            {point_at(points[piece]), point_at(points[piece + 1])}, command.width, round_ends, command.is_smooth != 0,
            command.ink};
        draw_stroke(pixel, stroke, pen, extent, x, y);
    }
}

__device__ inline void draw_command(
    Pixel &pixel, const Command &command, const Extent &extent, const Ways &ways, int x, int y) {
    const unsigned char *own = ways.data + command.data, *table = ways.data + command.table;
    if (command.kind == FILL) {
        pixel.fill(command.ink);
    } else if (command.kind == TEXT) {
        pixel.take(table, own[(long long)(y - command.y) * command.pitch + x - command.x]);
    } else if (command.kind == TINT) {
        if (mask_covers(own, command, x, y)) pixel.replace(table);
    } else if (command.kind == AREA) {
        const Edge *edges = reinterpret_cast<const Edge *>(own);
        if (area_covers(edges, command.count, x - command.left, y - command.top)) pixel.replace(table);
    } else if (command.kind == HEAT) {
        pixel.warm(table + heat_level(own, command, extent, x, y) * (1 + pixel.channels));
    } else {
        draw_pieces(pixel, command, extent, ways, x, y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) draw(
    const unsigned char *content, long long commands_start, long long data_start) {
    __shared__ unsigned reached[THREADS / 32];
    const Sheet sheet = reinterpret_cast<const Sheet *>(content)[blockIdx.z];
    const Command *commands = reinterpret_cast<const Command *>(content + commands_start);
    const unsigned char *data = content + data_start + sheet.data;
    const Ways ways = {reinterpret_cast<const int2 *>(data + sheet.points), data};
    const Extent extent = {sheet.width, sheet.height};
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    const int thread = threadIdx.y * TILE + threadIdx.x;
    if (left >= sheet.width || top >= sheet.height) return;
    const int x = left + threadIdx.x;
    for (int first = 0; first < sheet.count; first += THREADS) {
        const int own = first + thread;
        const bool is_reached = own < sheet.count && reaches(commands[sheet.first + own], ways, left, top);
        const unsigned votes = __ballot_sync(0xffffffffu, is_reached);
        if (thread % 32 == 0) reached[thread / 32] = votes;
        __syncthreads();
        for (int y = top + threadIdx.y; x < sheet.width && y < min(top + TILE, sheet.height); y += ROWS) {
            unsigned char *start = sheet.start + y * sheet.pitch_bytes + (long long)x * sheet.channels;
            Pixel pixel(start, sheet.channels);
            for (int word = 0; word < THREADS / 32; ++word) {
                for (unsigned rest = reached[word]; rest != 0; rest &= rest - 1) {
                    const Command &command = commands[sheet.first + first + word * 32 + __ffs(rest) - 1];
                    const bool is_inside =
                        x >= command.left && x < command.right && y >= command.top && y < command.bottom;
                    if (is_inside) draw_command(pixel, command, extent, ways, x, y);
                }
            }
            pixel.store();
        }
        __syncthreads();
    }
}
