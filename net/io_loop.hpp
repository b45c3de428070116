// Runs one thread that waits for sockets, timers and host names, and calls functions when they are ready. Owns
// Boost.Asio, which no other file of the tree includes; leaves the work to its callers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/descriptor.hpp"
#include "core/error.hpp"
#include "net/address.hpp"

namespace troupe::net {

using callback = std::function<void()>;  ///< callback that the thread of an io_loop calls once

/// A descriptor for which the loop waits. Used on the loop's thread only.
class watched {
 public:
  virtual ~watched() = default;
  [[nodiscard]] virtual int number() const = 0;
  /// Calls `then` once when bytes can be read or the other end has closed. Another call before that replaces `then`.
  virtual void when_readable(callback then) = 0;
  virtual void when_writable(callback then) = 0;
  /// Closes the descriptor and drops its callbacks without calling them.
  virtual void close() = 0;
};

/// A timer of the loop. Used on the loop's thread only.
class timer {
 public:
  virtual ~timer() = default;
  /// Calls `then` once when `ns` nanoseconds have passed; replaces an earlier callback of this timer.
  virtual void after(int64_t ns, callback then) = 0;
  virtual void cancel() = 0;
};

class io_loop {
 public:
  /// Starts a loop with its thread. Errors: limit, if the system refuses a thread or descriptors.
  static core::result<std::unique_ptr<io_loop>> start();
  virtual ~io_loop() = default;
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Calls `what` on the loop's thread. Callable from any thread.
  virtual void post(callback what) = 0;
  [[nodiscard]] virtual bool is_own_thread() const = 0;
  /// Stops the loop. The loop calls no callback after `stop` has returned, or, if `stop` was called on the loop's own
  /// thread, after the current callback has returned. Waiting callbacks are destroyed with the loop.
  virtual void stop() = 0;

  /// Returns an object that owns the non-blocking descriptor `number` and waits for it.
  virtual std::shared_ptr<watched> watch(int number) = 0;
  virtual std::unique_ptr<timer> make_timer() = 0;
  /// Finds all addresses of a host, in the order in which they should be tried. `tell` is called on the loop's thread.
  virtual void resolve(const std::string& host, uint16_t port,
                       std::function<void(core::result<std::vector<address>>)> tell) = 0;

 protected:
  io_loop() = default;
};

}  // namespace troupe::net
