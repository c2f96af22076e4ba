// NVDEC without a GPU, for the real PyNvVideoCodec: `libnvcuvid.so.1` above the null driver, and the two functions of
// `libnvidia-encode.so.1` that its import asks.
//
// The parser finds the size and the crop of a stream in its SPS (H.264, baseline profile, no B-frames). The decoder does
// not decode: every coded image is the same pattern (`null_luma`, `null_chroma`), so that a test sees which part of it
// came out. The structures are those of NVIDIA's Video Codec SDK 12 and 13 (`nvcuvid.h`, `cuviddec.h`).
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default"))) int
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_SUPPORTED = 801, MOST_MAPPED = 8, PITCH = 256, H264 = 4, NV12 = 0 };
enum { END_OF_STREAM = 1, END_OF_PICTURE = 8 };

extern int cuMemAlloc_v2(uint64_t *address, size_t bytes);
extern int cuMemFree_v2(uint64_t address);
extern int cuCtxGetCurrent(void **context);
extern int cuCtxPushCurrent_v2(void *context);
extern int cuCtxPopCurrent_v2(void **context);

struct rectangle { int left, top, right, bottom; };
struct format { // CUVIDEOFORMAT
    int codec;
    unsigned rate_numerator, rate_denominator;
    unsigned char is_progressive, luma_depth, chroma_depth, fewest_surfaces;
    unsigned coded_width, coded_height;
    struct rectangle display;
    int chroma;
    unsigned bitrate;
    int aspect_x, aspect_y;
    unsigned char signal[4];
    unsigned header_bytes;
};
struct shown { int picture, is_progressive, top_field_first, repeat_first_field; long long timestamp; };
struct picture { int width_in_blocks, height_in_blocks, index, fields[3]; char rest[8192]; };
struct parser_parameters { // CUVIDPARSERPARAMS
    int codec;
    unsigned surfaces, clock_rate, error_threshold, display_delay, flags, reserved[4];
    void *user;
    int (*sequence)(void *, struct format *);
    int (*decode)(void *, struct picture *);
    int (*display)(void *, struct shown *);
};
struct source_packet { unsigned long flags, bytes; const unsigned char *data; long long timestamp; };
struct decoder_parameters { // CUVIDDECODECREATEINFO
    unsigned long width, height, surfaces;
    int codec, chroma;
    unsigned long flags, depth, intra_only, most_width, most_height, reserved;
    struct { short left, top, right, bottom; } display;
    int output, deinterlacing;
    unsigned long target_width, target_height, outputs;
};

// --- what a coded image shows ---
API null_luma(int x, int y) { return 40 + (x / 16 * 11 + y / 16 * 17) % 160; }
API null_chroma(int x, int y, int plane) { return 60 + (x / 8 * 13 + y / 8 * 7 + plane * 50) % 120; }

// --- counts ---
static long decoders, mapped, maps;
API null_decoders(void) { return (int)decoders; }
API null_mapped(void) { return (int)mapped; }
API null_maps(void) { return (int)maps; }

// --- the parser ---
struct bits { unsigned char data[256]; unsigned at; };

static unsigned bit(struct bits *bits) {
    unsigned at = bits->at++;
    return at / 8 < sizeof bits->data ? bits->data[at / 8] >> (7 - at % 8) & 1 : 1;
}

static unsigned number(struct bits *bits, int count) {
    unsigned value = 0;
    while (count--) value = value << 1 | bit(bits);
    return value;
}

static unsigned code(struct bits *bits) { // Exp-Golomb
    int zeros = 0;
    while (!bit(bits) && zeros < 31) zeros++;
    return (1u << zeros) - 1 + number(bits, zeros);
}

static struct format format_of(const unsigned char *sps, size_t size) { // H.264, 7.3.2.1.1
    struct bits bits = {.at = 32}; // header, profile, constraints and level
    for (size_t i = 0, to = 0; i < size && to < sizeof bits.data; i++)
        if (!(i > 1 && sps[i] == 3 && !sps[i - 1] && !sps[i - 2])) bits.data[to++] = sps[i];
    code(&bits);
    code(&bits);
    if (!code(&bits)) code(&bits); // the order of images: kinds 0 and 2
    code(&bits);
    bit(&bits);
    unsigned width = 16 * (code(&bits) + 1), height = 16 * (code(&bits) + 1);
    number(&bits, 2);
    struct rectangle crop = {0, 0, 0, 0};
    if (bit(&bits)) {
        crop.left = 2 * (int)code(&bits);
        crop.right = 2 * (int)code(&bits);
        crop.top = 2 * (int)code(&bits);
        crop.bottom = 2 * (int)code(&bits);
    }
    return (struct format){
        .codec = H264, .rate_numerator = 25, .rate_denominator = 1, .is_progressive = 1, .fewest_surfaces = 4,
        .coded_width = width, .coded_height = height, .chroma = 1, .aspect_x = 1, .aspect_y = 1,
        .display = {crop.left, crop.top, (int)width - crop.right, (int)height - crop.bottom},
    };
}

struct parser {
    struct parser_parameters is;
    struct format format;
    int next;
    bool is_waiting; // an image, for the beginning of the next
    struct shown waiting;
};

API cuvidCreateVideoParser(struct parser **parser, struct parser_parameters *parameters) {
    if (!(*parser = calloc(1, sizeof **parser))) return INVALID_VALUE;
    (*parser)->is = *parameters;
    return SUCCESS;
}

API cuvidDestroyVideoParser(struct parser *parser) {
    free(parser);
    return SUCCESS;
}

static void show(struct parser *parser) {
    if (!parser->is_waiting) return;
    parser->is_waiting = false;
    struct picture picture = {(int)parser->format.coded_width / 16, (int)parser->format.coded_height / 16,
                              parser->waiting.picture, {0}, {0}};
    if (parser->is.decode(parser->is.user, &picture)) parser->is.display(parser->is.user, &parser->waiting);
}

static void take(struct parser *parser, const unsigned char *unit, size_t size, long long timestamp) {
    int kind = unit[0] & 31;
    if (kind == 7) {
        struct format format = format_of(unit, size);
        if (!memcmp(&format, &parser->format, sizeof format)) return;
        show(parser);
        parser->format = format;
        parser->is.sequence(parser->is.user, &format);
    } else if ((kind == 1 || kind == 5) && size > 1 && unit[1] & 0x80 && parser->format.coded_width) { // its first slice
        show(parser);
        parser->waiting = (struct shown){parser->next++ % (int)parser->format.fewest_surfaces, 1, 0, 0, timestamp};
        parser->is_waiting = true;
    }
}

API cuvidParseVideoData(struct parser *parser, struct source_packet *packet) {
    const unsigned char *data = packet->data, *end = data + packet->bytes, *begin = NULL;
    for (const unsigned char *at = data; data && at + 3 <= end; at++) {
        if (at[0] || at[1] || at[2] != 1) continue;
        if (begin) take(parser, begin, (size_t)(at - begin), packet->timestamp);
        begin = at + 3;
    }
    if (begin) take(parser, begin, (size_t)(end - begin), packet->timestamp);
    if (packet->flags & (END_OF_STREAM | END_OF_PICTURE)) show(parser);
    return SUCCESS;
}

// --- the decoder ---
struct decoder {
    struct decoder_parameters is;
    void *context;
    uint64_t surfaces[MOST_MAPPED];
    bool is_mapped[MOST_MAPPED];
};

API cuvidGetDecoderCaps(int *caps) { // CUVIDDECODECAPS: codec, chroma, depth, ..., then what is supported
    bool is_supported = caps[0] == H264 && caps[1] == 1 && !caps[2];
    memset(caps + 6, 0, 16 * sizeof *caps);
    caps[6] = is_supported | 7 << 8 | 1 << 16; // seven engines, NV12
    caps[7] = caps[8] = 4096;
    caps[9] = 65536;
    caps[10] = 48 | 16 << 16;
    return SUCCESS;
}

API cuvidCreateDecoder(struct decoder **decoder, struct decoder_parameters *parameters) {
    if (parameters->codec != H264 || parameters->output != NV12 || parameters->outputs > MOST_MAPPED) return NOT_SUPPORTED;
    if (!(*decoder = calloc(1, sizeof **decoder))) return INVALID_VALUE;
    (*decoder)->is = *parameters;
    cuCtxGetCurrent(&(*decoder)->context);
    decoders++;
    return SUCCESS;
}

API cuvidDestroyDecoder(struct decoder *decoder) {
    cuCtxPushCurrent_v2(decoder->context);
    for (int i = 0; i < MOST_MAPPED; i++)
        if (decoder->surfaces[i]) cuMemFree_v2(decoder->surfaces[i]);
    cuCtxPopCurrent_v2(NULL);
    free(decoder);
    decoders--;
    return SUCCESS;
}

API cuvidReconfigureDecoder(struct decoder *decoder, void *parameters) {
    (void)decoder, (void)parameters;
    return NOT_SUPPORTED;
}

API cuvidDecodePicture(struct decoder *decoder, struct picture *picture) {
    return decoder && picture ? SUCCESS : INVALID_VALUE;
}

API cuvidGetDecodeStatus(struct decoder *decoder, int picture, int *status) {
    (void)decoder, (void)picture;
    *status = 2; // decoded
    return SUCCESS;
}

static void paint(const struct decoder *decoder, unsigned char *to, unsigned pitch) {
    int width = (int)decoder->is.target_width, height = (int)decoder->is.target_height;
    int left = decoder->is.display.left, top = decoder->is.display.top; // the decoder crops, if it is asked to
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) to[(size_t)y * pitch + x] = (unsigned char)null_luma(x + left, y + top);
    to += (size_t)pitch * ((height + 1) / 2 * 2);
    for (int y = 0; y < (height + 1) / 2; y++)
        for (int x = 0; x < (width + 1) / 2 * 2; x++)
            to[(size_t)y * pitch + x] = (unsigned char)null_chroma(x / 2 + left / 2, y + top / 2, x % 2);
}

API cuvidMapVideoFrame64(struct decoder *decoder, int picture, uint64_t *address, unsigned *pitch, void *parameters) {
    (void)picture, (void)parameters;
    int i = 0;
    while (i < (int)decoder->is.outputs && decoder->is_mapped[i]) i++;
    if (i == (int)decoder->is.outputs) return INVALID_VALUE; // more than were asked for
    *pitch = (unsigned)(decoder->is.target_width + PITCH - 1) / PITCH * PITCH;
    size_t bytes = *pitch * ((decoder->is.target_height + 1) / 2 * 3);
    if (!decoder->surfaces[i]) { // painted once: every image is the same, and to paint it costs more than all else
        if (cuMemAlloc_v2(&decoder->surfaces[i], bytes)) return INVALID_VALUE;
        paint(decoder, (unsigned char *)(uintptr_t)decoder->surfaces[i], *pitch);
    }
    *address = decoder->surfaces[i];
    decoder->is_mapped[i] = true;
    mapped++;
    maps++;
    return SUCCESS;
}

API cuvidUnmapVideoFrame64(struct decoder *decoder, uint64_t address) {
    for (int i = 0; i < MOST_MAPPED; i++) {
        if (!decoder->is_mapped[i] || decoder->surfaces[i] != address) continue;
        decoder->is_mapped[i] = false;
        mapped--;
        return SUCCESS;
    }
    return INVALID_VALUE;
}

// --- locks that nobody needs here, and the encoder's version ---
API cuvidCtxLockCreate(void **lock, void *context) { return *lock = context, SUCCESS; }
API cuvidCtxLockDestroy(void *lock) { return (void)lock, SUCCESS; }
API cuvidCtxLock(void *lock, unsigned flags) { return (void)lock, (void)flags, SUCCESS; }
API cuvidCtxUnlock(void *lock, unsigned flags) { return (void)lock, (void)flags, SUCCESS; }
API NvEncodeAPIGetMaxSupportedVersion(uint32_t *version) { return *version = 13 << 4, SUCCESS; }
API NvEncodeAPICreateInstance(void *functions) { return (void)functions, 15; }

// What is looked up and never called.
#define UNUSED(name) API name(void) { return NOT_SUPPORTED; }
UNUSED(cuvidCreateVideoSource)
UNUSED(cuvidCreateVideoSourceW)
UNUSED(cuvidDestroyVideoSource)
UNUSED(cuvidGetSourceAudioFormat)
UNUSED(cuvidGetSourceVideoFormat)
UNUSED(cuvidGetVideoSourceState)
UNUSED(cuvidSetVideoSourceState)
