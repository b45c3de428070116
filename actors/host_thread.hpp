// Guards a thread of the host program while it calls CAF. CAF 0.17 leaves a counted pointer to an actor system's logger
// in a thread-local variable of every thread that makes the system, spawns in it or talks to its actors. The end of the
// actor system waits until no such pointer is left: for ever, if such a thread lives on. Every call of CAF on a thread
// of the host is therefore made while a host_thread exists on it.
#pragma once

#include "actors/caf.hpp"
#include "core/system/float_environment.hpp"

namespace troupe::actors {

/// Sets the calling thread to Troupe's floating-point environment while the object exists; threads created meanwhile
/// inherit it. The destructor removes CAF's logger from the thread's thread-local, unless it was there before.
class host_thread {
 public:
  host_thread() : before_(caf::logger::current_logger()) {}
  ~host_thread() {
    if (caf::logger::current_logger() != before_) caf::logger::set_current_actor_system(nullptr);
  }
  host_thread(const host_thread&) = delete;
  host_thread& operator=(const host_thread&) = delete;

 private:
  const caf::logger* before_;  // logger of the thread before the call; compared, never dereferenced
  core::usual_float_environment numbers_;
};

/// An actor of CAF for blocking calls from a thread of the host program, for the duration of one call.
class host_caller {
 public:
  explicit host_caller(caf::actor_system& system) : self_(system) {}
  caf::blocking_actor* operator->() const { return self_.ptr(); }

 private:
  host_thread thread_;  // first member, so that it is destroyed after self_
  caf::scoped_actor self_;
};

}  // namespace troupe::actors
