// The threads of a block, one fibre each where they must wait for one another, on one thread of the host.
//
// Threads run one after another, each until it ends or waits; so a kernel that never waits needs one fibre only. What a
// missing barrier shows depends on the order in which they run, so the order is the caller's choice. Compiled once and
// linked into the library of every source.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "host_block.h"
#include "host_switching.h"

host_cuda::Index threadIdx, blockIdx;
host_cuda::Extent blockDim, gridDim;

extern "C" {
extern char __start_host_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_host_shared[] __attribute__((weak, visibility("hidden")));
}

namespace host_cuda {

namespace {

constexpr int unset_byte = 0xA5;

enum class State { fresh, running, at_barrier, in_warp, done };

struct Thread {
    Index index{};
    unsigned number = 0;
    State state = State::fresh;
    bool may_go_on = false;
    Fibre *fibre = nullptr;
};

// Lanes of a warp that exchange values under one mask. Two buffers, because a fast lane may bring its next value while
// a slow one still reads the last.
struct Exchange {
    unsigned arrived = 0;
    unsigned long long round = 0;
    int line = 0;
    unsigned present[2] = {};
    unsigned long long values[2][warp_threads] = {};
};

class Block {
public:
    Block(Extent extent, int order) : extent_(extent) {
        const unsigned count = extent.x * extent.y * extent.z;
        threads_.resize(count);
        order_.resize(count);
        std::iota(order_.begin(), order_.end(), 0u);
        if (order == 1) std::reverse(order_.begin(), order_.end());
        if (order == 2) shuffle();
    }

    // Runs one block. False when threads wait for what never comes, or did what no kernel may: `error` says what.
    bool run(const Work &work) {
        reset(work);
        for (;;) {
            bool went_on = false;
            while (next_ < threads_.size() && error.empty()) {
                fibres_.switch_to(fibres_.idle());
                went_on = true;
            }
            for (unsigned number : order_) {
                Thread &thread = threads_[number];
                if (!thread.may_go_on || !error.empty()) continue;
                thread.may_go_on = false;
                thread.state = State::running;
                enter(thread);
                fibres_.switch_to(thread.fibre);
                went_on = true;
            }
            if (!error.empty()) break;
            if (done_ == threads_.size()) return true;
            if (!went_on) {
                error = "threads wait for one another and none can go on: " + describe_waiting();
                break;
            }
        }
        fibres_.forget();
        return false;
    }

    // Waits for all threads of the block that have not ended; how much they counted together.
    int barrier(int line, int counted) {
        if (waiting_ == 0) barrier_line_ = line;
        if (barrier_line_ != line) {
            fail("threads of one block wait at different barriers, in lines " + std::to_string(barrier_line_) +
                 " and " + std::to_string(line));
        }
        ++waiting_;
        counting_ += counted;
        current_->state = State::at_barrier;
        release_barrier();
        fibres_.leave();
        return counted_;
    }

    // Brings a value and waits for those of all lanes in the mask that have not ended; the values by lane, and in
    // `present` which lanes brought one.
    const unsigned long long *exchange(unsigned mask, unsigned long long value, unsigned *present, int line) {
        const unsigned lane = current_->number % warp_threads, warp = current_->number / warp_threads;
        if (!(mask >> lane & 1u)) {
            fail("lane " + std::to_string(lane) + " is not in its own mask, line " + std::to_string(line));
        }
        Exchange &shared = exchanges_[{warp, mask}];
        if (shared.arrived == 0) shared.line = line;
        if (shared.line != line) {
            fail("lanes of one warp exchange values in different lines, " + std::to_string(shared.line) + " and " +
                 std::to_string(line));
        }
        const unsigned long long round = shared.round;
        shared.values[round & 1][lane] = value;
        shared.arrived |= 1u << lane;
        current_->state = State::in_warp;
        release_warp(warp);
        fibres_.leave();
        *present = shared.present[round & 1];
        return shared.values[round & 1];
    }

    [[noreturn]] void fail(const std::string &what) {
        error = what;
        fibres_.leave();
        std::abort();
    }

    static void start() {
        running->fibres_.arrive();
        running->run_threads();
    }

    const Thread &current() const { return *current_; }

    std::string error;
    static Block *running;

private:
    void shuffle() {
        unsigned state = 12345u;
        for (std::size_t i = order_.size(); i > 1; --i) {
            state = state * 1664525u + 1013904223u;
            std::swap(order_[i - 1], order_[(state >> 8) % i]);
        }
    }

    void reset(const Work &work) {
        work_ = &work;
        running = this;
        next_ = done_ = waiting_ = 0;
        counting_ = 0;
        exchanges_.clear();
        for (unsigned number = 0; number < threads_.size(); ++number) {
            Thread &thread = threads_[number];
            thread = Thread{};
            thread.number = number;
            thread.index = {number % extent_.x, number / extent_.x % extent_.y, number / (extent_.x * extent_.y)};
        }
    }

    // What a fibre does: threads one after another, until one waits. That one goes on here later.
    void run_threads() {
        for (;;) {
            while (next_ < threads_.size()) {
                Thread &thread = threads_[order_[next_++]];
                thread.fibre = fibres_.current();
                thread.state = State::running;
                enter(thread);
                work_->call(work_->arguments);
                end_thread();
            }
            fibres_.rest();
        }
    }

    void end_thread() {
        current_->state = State::done;
        ++done_;
        release_barrier();
        release_warp(current_->number / warp_threads);
    }

    void release_barrier() {
        if (waiting_ == 0 || waiting_ + done_ < threads_.size()) return;
        waiting_ = 0;
        counted_ = counting_;
        counting_ = 0;
        for (Thread &thread : threads_) {
            if (thread.state == State::at_barrier) thread.may_go_on = true;
        }
    }

    void release_warp(unsigned warp) {
        const unsigned first = warp * warp_threads;
        const unsigned end = std::min<unsigned>(first + warp_threads, threads_.size());
        unsigned alive = 0;
        for (unsigned number = first; number < end; ++number) {
            if (threads_[number].state != State::done) alive |= 1u << (number - first);
        }
        for (auto &[key, shared] : exchanges_) {
            if (key.first != warp || shared.arrived == 0 || shared.arrived != (key.second & alive)) continue;
            shared.present[shared.round & 1] = shared.arrived;
            ++shared.round;
            for (unsigned lane = 0; lane < warp_threads; ++lane) {
                if (shared.arrived >> lane & 1u) threads_[first + lane].may_go_on = true;
            }
            shared.arrived = 0;
        }
    }

    std::string describe_waiting() const {
        std::string text;
        if (waiting_) text = std::to_string(waiting_) + " at the barrier in line " + std::to_string(barrier_line_);
        for (const auto &[key, shared] : exchanges_) {
            if (!shared.arrived) continue;
            char lanes[16];
            std::snprintf(lanes, sizeof lanes, "%08x", shared.arrived);
            text += (text.empty() ? "" : "; ") + std::string("lanes ") + lanes + " of warp " +
                    std::to_string(key.first) + " in line " + std::to_string(shared.line);
        }
        return text;
    }

    void enter(Thread &thread) {
        current_ = &thread;
        threadIdx = thread.index;
    }

    Extent extent_;
    std::vector<Thread> threads_;
    std::vector<unsigned> order_;
    std::map<std::pair<unsigned, unsigned>, Exchange> exchanges_;
    Fibres fibres_{&Block::start};
    const Work *work_ = nullptr;
    Thread *current_ = nullptr;
    std::size_t next_ = 0, done_ = 0, waiting_ = 0;
    int barrier_line_ = 0, counting_ = 0, counted_ = 0;
};

Block *Block::running = nullptr;

std::mutex launching;
unsigned char *dynamic_shared = nullptr;

void forget_shared(std::size_t dynamic_bytes) {
    if (__start_host_shared) std::memset(__start_host_shared, unset_byte, __stop_host_shared - __start_host_shared);
    std::memset(dynamic_shared, unset_byte, dynamic_bytes);
}

}  // namespace

void fail(const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    Block::running->fail(text);
}

int barrier(int line, int counted) { return Block::running->barrier(line, counted); }

const unsigned long long *exchange(unsigned mask, unsigned long long value, unsigned *present, int line) {
    return Block::running->exchange(mask, value, present, line);
}

unsigned thread_number() { return Block::running->current().number; }

void *shared_memory() { return dynamic_shared; }

int run_grid(const Work &work, const HostLaunch &launch, char *error, std::size_t error_bytes) {
    const std::lock_guard<std::mutex> one_at_a_time(launching);
    const std::unique_ptr<unsigned char[]> dynamic(new unsigned char[launch.shared_bytes]);
    dynamic_shared = dynamic.get();
    gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    blockDim = {launch.block[0], launch.block[1], launch.block[2]};
    Block block(blockDim, launch.order);
    const std::size_t blocks = std::size_t(gridDim.x) * gridDim.y * gridDim.z;
    for (std::size_t count = 0; count < blocks; ++count) {
        const std::size_t number = launch.order == 0 ? count : blocks - 1 - count;
        blockIdx = {unsigned(number % gridDim.x), unsigned(number / gridDim.x % gridDim.y),
                    unsigned(number / gridDim.x / gridDim.y)};
        forget_shared(launch.shared_bytes);
        if (block.run(work)) continue;
        std::snprintf(error, error_bytes, "block (%u, %u, %u): %s", blockIdx.x, blockIdx.y, blockIdx.z,
                      block.error.c_str());
        return 1;
    }
    return 0;
}

}  // namespace host_cuda
