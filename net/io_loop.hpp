// One thread that waits for sockets, times and names of hosts, and does what follows. Owns Boost.Asio, which no other
// file of the tree sees; what is done is its callers'.
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

using deed = std::function<void()>;  ///< done once, on the loop's thread

/// A descriptor that is waited for. On the loop's thread alone.
class watched {
 public:
  virtual ~watched() = default;
  [[nodiscard]] virtual int number() const = 0;
  /// When there is something to read or its end is there; where called again before, the later deed counts.
  virtual void when_readable(deed then) = 0;
  virtual void when_writable(deed then) = 0;
  /// No deed is done from now on.
  virtual void close() = 0;
};

/// On the loop's thread alone.
class timer {
 public:
  virtual ~timer() = default;
  /// Instead of what it waited for before.
  virtual void after(int64_t ns, deed then) = 0;
  virtual void cancel() = 0;
};

class io_loop {
 public:
  /// Errors: limit, where the system refuses its thread or descriptors.
  static core::result<std::unique_ptr<io_loop>> start();
  virtual ~io_loop() = default;
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Any thread.
  virtual void post(deed what) = 0;
  [[nodiscard]] virtual bool is_own_thread() const = 0;
  /// Nothing is done any more when it returns; on the loop's own thread: once the deed at work has returned. What waits
  /// is dropped with the loop.
  virtual void stop() = 0;

  /// Takes the descriptor, which does not block, as its own.
  virtual std::shared_ptr<watched> watch(int number) = 0;
  virtual std::unique_ptr<timer> make_timer() = 0;
  /// All addresses of a host, in the order in which they should be tried. `tell` is called on the loop's thread.
  virtual void resolve(const std::string& host, uint16_t port,
                       std::function<void(core::result<std::vector<address>>)> tell) = 0;

 protected:
  io_loop() = default;
};

}  // namespace troupe::net
