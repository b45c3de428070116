// A thread that sleeps until descriptors become readable and says so: how an actor, which sleeps in its mailbox, learns
// of completions. Owns the sleeping; the descriptors and what follows are the callbacks' owners'.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/error.hpp"

namespace troupe::storage {

class event_watch {
 public:
  static core::result<std::unique_ptr<event_watch>> start();  ///< one thread; errors: `limit`
  event_watch(const event_watch&) = delete;
  event_watch& operator=(const event_watch&) = delete;
  ~event_watch();  ///< no callback runs afterwards

  /// Calls `ready` on the watch's thread when `descriptor` is readable, once; again after `resume`. `ready` only tells
  /// (mails, signals), it never waits. Error `io` where the system refuses.
  core::result<void> add(int descriptor, std::function<void()> ready);

  /// Any thread: what made `descriptor` readable was looked at, tell of the next. Nothing is missed in between: what is
  /// readable then is told at once.
  void resume(int descriptor);

  void remove(int descriptor);  ///< before the descriptor is closed; its callback does not run afterwards

 private:
  event_watch() = default;
  struct shared_state;
  std::unique_ptr<shared_state> state_;
};

}  // namespace troupe::storage
