// Fibres, and going from one to the other and back.
#pragma once

#include <memory>
#include <ucontext.h>
#include <vector>

#if defined(HOST_FIBRES_ARE_NOTED)
#include <sanitizer/common_interface_defs.h>
#endif

namespace host_cuda {

constexpr std::size_t stack_bytes = 256 * 1024;

struct Fibre {
    ucontext_t context{};
    std::unique_ptr<char[]> stack{new char[stack_bytes]};
    void *saved_by_sanitizer = nullptr;
};

// The fibres that one scheduler switches to; they all begin with the same function, and only leave, never end.
class Fibres {
public:
    explicit Fibres(void (*begin)()) : begin_(begin) {}

    // A fibre with nothing to do, new when there is none.
    Fibre *idle() {
        if (idle_.empty()) {
            all_.push_back(std::make_unique<Fibre>());
            prepare(*all_.back());
            return all_.back().get();
        }
        Fibre *fibre = idle_.back();
        idle_.pop_back();
        return fibre;
    }

    Fibre *current() const { return current_; }

    // From the scheduler to a fibre, until that one leaves.
    void switch_to(Fibre *fibre) {
        current_ = fibre;
#if defined(HOST_FIBRES_ARE_NOTED)
        void *saved = nullptr;
        __sanitizer_start_switch_fiber(&saved, fibre->stack.get(), stack_bytes);
        swapcontext(&scheduler_, &fibre->context);
        __sanitizer_finish_switch_fiber(saved, nullptr, nullptr);
#else
        swapcontext(&scheduler_, &fibre->context);
#endif
    }

    // The first thing that a fibre does.
    void arrive() {
#if defined(HOST_FIBRES_ARE_NOTED)
        __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
    }

    // From the current fibre to the scheduler, until that one switches to it again.
    void leave() {
        Fibre *fibre = current_;
#if defined(HOST_FIBRES_ARE_NOTED)
        __sanitizer_start_switch_fiber(&fibre->saved_by_sanitizer, scheduler_stack_, scheduler_stack_bytes_);
        swapcontext(&fibre->context, &scheduler_);
        __sanitizer_finish_switch_fiber(fibre->saved_by_sanitizer, &scheduler_stack_, &scheduler_stack_bytes_);
#else
        swapcontext(&fibre->context, &scheduler_);
#endif
    }

    // Leaves with nothing more to do for now.
    void rest() {
        idle_.push_back(current_);
        leave();
    }

    // Drops all fibres, whatever they were about.
    void forget() {
        all_.clear();
        idle_.clear();
    }

private:
    void prepare(Fibre &fibre) const {
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.get();
        fibre.context.uc_stack.ss_size = stack_bytes;
        fibre.context.uc_link = nullptr;
        makecontext(&fibre.context, begin_, 0);
    }

    void (*begin_)();
    std::vector<std::unique_ptr<Fibre>> all_;
    std::vector<Fibre *> idle_;
    Fibre *current_ = nullptr;
    ucontext_t scheduler_{};
    [[maybe_unused]] const void *scheduler_stack_ = nullptr;
    [[maybe_unused]] std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace host_cuda
