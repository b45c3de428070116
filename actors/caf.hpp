// Adapts Troupe to CAF 0.17, the actor framework: the only header that includes <caf/...>. Another version of CAF
// requires changes in this file and in the lines of actors/*.cpp that spawn actors. docs/messages.md lists the sender
// and receivers of each message.
#pragma once

#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <new>
#include <string>

static_assert(CAF_VERSION / 100 == 17, "actors/caf.hpp is written for CAF 0.17");

#include "core/error.hpp"

namespace troupe::actors {

/// Sends a message without waiting. The only CAF call that a thread which completes I/O or collectives may make; any
/// other thread may call it, too.
template <class Handle, class... Ts>
void post(const Handle& to, Ts&&... xs) {
  caf::anon_send(to, std::forward<Ts>(xs)...);
}

/// Returns this actor's clock in nanoseconds: core::now_ns in production, virtual time in simulation.
template <class Self>
int64_t now_ns(const Self* self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self->clock().now().time_since_epoch()).count();
}

/// Refuses to serialize local-only messages, which carry pointers: they can be sent inside a process, and sending them
/// over the network fails.
template <class Inspector>
typename Inspector::result_type refuse_wire([[maybe_unused]] Inspector& f) {
  if constexpr (std::is_same_v<typename Inspector::result_type, caf::error>)
    return caf::make_error(caf::sec::state_not_serializable);
  else
    return f();
}

/// True once an allocation has failed in an actor of this process. CAF 0.17 may then have stored a message without
/// scheduling its receiver, which never runs again and cannot be ended.
inline std::atomic<bool> allocation_has_failed{false};

/// Configures an actor so that an unexpected error reply does not end it, and so that an exception in one of its
/// handlers calls `on_exception(self, text)` before the actor ends. Every actor calls this first.
template <class Self, class OnException>
void be_robust(Self* self, OnException on_exception) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_exception_handler([self, on_exception](caf::scheduled_actor*, std::exception_ptr& e) -> caf::error {
    std::string text = "unknown exception";
    try {
      std::rethrow_exception(e);
    } catch (const std::bad_alloc& x) {
      allocation_has_failed = true;
      text = x.what();
    } catch (const std::exception& x) {
      text = x.what();
    } catch (...) {
    }
    on_exception(self, text);
    return caf::make_error(caf::sec::runtime_error, text);
  });
}

}  // namespace troupe::actors
