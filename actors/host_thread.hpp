// A host's thread while it is inside CAF. CAF 0.17 leaves a counted pointer to a system's logger in a thread-local of
// every thread that makes the system, spawns in it or talks to its actors, and the system's end waits until none is
// left: for ever, if such a thread lives on. So every call of CAF on a host's thread is made inside one of these.
#pragma once

#include "actors/caf.hpp"
#include "core/float_environment.hpp"

namespace troupe::actors {

/// At its end, removes CAF's logger from the calling thread's thread-local, unless it was there before. Meanwhile the
/// thread computes as Troupe does; threads that it makes begin like that.
class host_thread {
 public:
  host_thread() : before_(caf::logger::current_logger()) {}
  ~host_thread() {
    if (caf::logger::current_logger() != before_) caf::logger::set_current_actor_system(nullptr);
  }
  host_thread(const host_thread&) = delete;
  host_thread& operator=(const host_thread&) = delete;

 private:
  const caf::logger* before_;  // only compared
  core::usual_float_environment numbers_;
};

/// An actor on a host's thread, for the length of one call.
class host_caller {
 public:
  explicit host_caller(caf::actor_system& system) : self_(system) {}
  caf::blocking_actor* operator->() const { return self_.ptr(); }

 private:
  host_thread thread_;  // first, so that it ends last
  caf::scoped_actor self_;
};

}  // namespace troupe::actors
