// Runs a thread that waits until descriptors become readable and then calls callbacks. A callback notifies an actor,
// which waits for messages, of completed I/O. Owns the thread; the code that adds callbacks owns the descriptors.
#pragma once

#include <functional>
#include <memory>

#include "core/error.hpp"

namespace troupe::storage {

class event_watch {
 public:
  static core::result<std::unique_ptr<event_watch>> start();  ///< starts the watch's thread; errors: `limit`
  event_watch(const event_watch&) = delete;
  event_watch& operator=(const event_watch&) = delete;
  ~event_watch();  ///< stops the thread; no callback runs afterwards

  /// Registers `ready`, which the watch's thread calls once when `descriptor` is readable, and again after `resume`.
  /// `ready` must only notify (send a message, signal) and never wait. Error `io` if the system refuses.
  core::result<void> add(int descriptor, std::function<void()> ready);

  /// Enables the callback of `descriptor` again, after its owner has handled the readable state. May be called by any
  /// thread. If the descriptor is readable already, the callback runs at once, so that no event is lost.
  void resume(int descriptor);

  void remove(int descriptor);  ///< disables a callback; must precede closing the descriptor

 private:
  event_watch() = default;
  struct shared_state;
  std::unique_ptr<shared_state> state_;
};

}  // namespace troupe::storage
