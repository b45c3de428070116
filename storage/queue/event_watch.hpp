// A thread that sleeps until descriptors become readable and then calls callbacks: an actor, which sleeps in its
// mailbox, learns of completions this way. Owns the sleeping; the owners of the callbacks own the descriptors and the
// reactions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/error.hpp"

namespace troupe::storage {

class event_watch {
 public:
  static core::result<std::unique_ptr<event_watch>> start();  ///< starts one thread; errors: `limit`
  event_watch(const event_watch&) = delete;
  event_watch& operator=(const event_watch&) = delete;
  ~event_watch();  ///< no callback runs afterwards

  /// Registers `ready`, which the watch's thread calls once when `descriptor` is readable, and again after `resume`.
  /// `ready` must only notify (send a message, signal) and never wait. Error `io` if the system refuses.
  core::result<void> add(int descriptor, std::function<void()> ready);

  /// Arms the callback of `descriptor` again, after its owner has handled the readable state. May be called by any
  /// thread. No event is lost in between: if the descriptor is readable already, the callback runs at once.
  void resume(int descriptor);

  void remove(int descriptor);  ///< call before the descriptor is closed; its callback does not run afterwards

 private:
  event_watch() = default;
  struct shared_state;
  std::unique_ptr<shared_state> state_;
};

}  // namespace troupe::storage
