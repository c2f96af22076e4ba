// Drawing on surfaces in place: a list of commands for each plane, in order. A block draws a tile of a plane; it looks
// which commands reach its tile and then goes through these, each thread with pixels of its own, so that later commands
// are drawn over earlier ones and no thread waits for another's pixel.
#include "strokes.cuh"

constexpr int TILE = 32, ROWS = 8, THREADS = TILE * ROWS;

enum Kind { FILL, TEXT, TINT, AREA, STROKE };

// A plane, its part of the commands, and where the data of its picture begin.
struct Sheet {
    unsigned char *start;
    long long pitch_bytes;
    long long data;
    int width, height, channels;
    int first, count;
    int unused;
};

// What is drawn into the rectangle left .. right, top .. bottom (half-open) of a plane. `data` and `table` are places in
// the picture's data, which begin with `Smoothness`.
//
// FILL    the rectangle, with `ink`
// TEXT    `data` holds the coverage of each pixel, rows `pitch` bytes apart: which row of `table` (256, channels) it gets
// TINT    `data` holds a mask, a bit for each pixel of the picture, rows `pitch` bits apart; pixel (0, 0) of the plane is
//         bit (x, y), and the next pixels are `across` and `down` bits further; `table` says what levels become
// AREA    `data` holds the `count` edges of a polygon whose inside, by the even-odd rule, is tinted by `table`
// STROKE  a piece of a line from (x, y) to (x_end, y_end), in 1 / 16 of a pixel; `data` holds the corners of round ends,
//         `table` the half widths of their rows
struct Command {
    int kind;
    int left, top, right, bottom;
    unsigned ink;
    int data, pitch, table, count;
    int x, y, across, down;
    int x_end, y_end, width, round_ends, is_smooth, radius;
};

// An edge of a polygon: the line that is drawn along it, in whole pixels (none when `is_drawn` is 0), and where its inner
// side is in the rows that it crosses. Counted from the corner of the command's rectangle.
struct Edge {
    int x, y, x_end, y_end;
    int is_drawn, top, bottom, unused;
    Fixed start, step;
};

// Whether a command may have something to draw in a tile. A line that slants lies in few of its rectangle's tiles.
__device__ inline bool reaches(const Command &command, int left, int top) {
    if (command.left >= left + TILE || command.right <= left || command.top >= top + TILE || command.bottom <= top) {
        return false;
    }
    if (command.kind != STROKE) return true;
    const float across = command.x_end - command.x, down = command.y_end - command.y;
    const float x = 16 * (left + TILE / 2) - command.x, y = 16 * (top + TILE / 2) - command.y;
    const float distance = fabsf(across * y - down * x), length = sqrtf(across * across + down * down);
    return distance <= 16 * (TILE + command.width + 8) * length || length == 0;
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

__device__ inline void draw_piece(
    Pixel &pixel, const Command &command, const Sheet &sheet, const unsigned char *data, int x, int y) {
    const Fixed unit = ONE / 16;
    const Stroke stroke = {
        {{command.x * unit, command.y * unit}, {command.x_end * unit, command.y_end * unit}},
        command.width, command.round_ends, command.is_smooth != 0, command.ink};
    const Pen pen = {
        reinterpret_cast<const Smoothness *>(data), data + command.table,
        reinterpret_cast<const Offset *>(data + command.data), command.radius, command.count};
    draw_stroke(pixel, stroke, pen, {sheet.width, sheet.height}, x, y);
}

__device__ inline void draw_command(
    Pixel &pixel, const Command &command, const Sheet &sheet, const unsigned char *data, int x, int y) {
    const unsigned char *own = data + command.data, *table = data + command.table;
    if (command.kind == FILL) {
        pixel.fill(command.ink);
    } else if (command.kind == TEXT) {
        pixel.take(table, own[(long long)(y - command.y) * command.pitch + x - command.x]);
    } else if (command.kind == TINT) {
        if (mask_covers(own, command, x, y)) pixel.replace(table);
    } else if (command.kind == AREA) {
        const Edge *edges = reinterpret_cast<const Edge *>(own);
        if (area_covers(edges, command.count, x - command.left, y - command.top)) pixel.replace(table);
    } else {
        draw_piece(pixel, command, sheet, data, x, y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) draw(
    const unsigned char *content, long long commands_start, long long data_start) {
    __shared__ unsigned reached[THREADS / 32];
    const Sheet sheet = reinterpret_cast<const Sheet *>(content)[blockIdx.z];
    const Command *commands = reinterpret_cast<const Command *>(content + commands_start);
    const unsigned char *data = content + data_start + sheet.data;
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    const int thread = threadIdx.y * TILE + threadIdx.x;
    if (left >= sheet.width || top >= sheet.height) return;
    const int x = left + threadIdx.x;
    for (int first = 0; first < sheet.count; first += THREADS) {
        const int own = first + thread;
        const bool is_reached = own < sheet.count && reaches(commands[sheet.first + own], left, top);
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
                    if (is_inside) draw_command(pixel, command, sheet, data, x, y);
                }
            }
            pixel.store();
        }
        __syncthreads();
    }
}
