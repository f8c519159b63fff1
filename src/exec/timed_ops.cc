#include "exec/timed_ops.h"

#include <atomic>

#include "exec/wrapped_ops.h"

namespace thalweg::exec {
namespace {

std::atomic<TimedOps*> the_one = nullptr;

}  // namespace

struct TimedOps::Around {
  static const kernels::Ops& Inner() { return the_one.load()->timed_; }

  template <typename Params>
  static void Run(std::string_view op, void (*body)(const Params&), const Params& params) {
    const Time begin = std::chrono::steady_clock::now();
    body(params);
    const Observer& observer = the_one.load()->observer_;
    if (observer) observer(op, begin, std::chrono::steady_clock::now());
  }
};

TimedOps::TimedOps(const kernels::Ops& timed) : timed_(timed), ops_(WrapOps<Around>(timed)) {}

Result<std::unique_ptr<TimedOps>> TimedOps::Make(const kernels::Ops& timed) {
  std::unique_ptr<TimedOps> made(new TimedOps(timed));
  TimedOps* none = nullptr;
  if (the_one.compare_exchange_strong(none, made.get())) return made;
  return base::FailedPrecondition(
      "another model of this process writes a timeline of its ops: --trace is for one at a time");
}

TimedOps::~TimedOps() {
  TimedOps* self = this;
  the_one.compare_exchange_strong(self, nullptr);
}

}  // namespace thalweg::exec
