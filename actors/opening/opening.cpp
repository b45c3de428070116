#include "actors/opening/opening.hpp"

#include "core/clock.hpp"

namespace troupe::actors {

core::error opening_watch::why() const {
  return {core::error_kind::stopped, "stopped while the run was being opened (" + phase_ + ")"};
}

core::result<void> opening_watch::begin(std::string phase) {
  phase_ = std::move(phase);
  share_ = -1;
  return ask(-1);
}

core::result<void> opening_watch::go_on(double share) {
  if (!stopped() && core::now_ns() < next_ns_) return {};
  return ask(share);
}

core::result<void> opening_watch::ask(double share) {
  next_ns_ = core::now_ns() + std::chrono::nanoseconds(opening_interval).count();
  if (!stopped() && hook_) {
    bool continues = false;  // an exception of the hook ends the opening too
    struct keep {
      const bool& continues;
      std::atomic<bool>& stopped;
      ~keep() { stopped = !continues; }
    } told{continues, stopped_};
    continues = hook_({phase_, share});
  }
  if (stopped()) return core::fail(why());
  return {};
}

}  // namespace troupe::actors
