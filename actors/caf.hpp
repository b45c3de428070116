// The seam to CAF 0.17: the only header that names <caf/...>. A later CAF changes this file and actors/*.cpp's
// spawn lines, nothing else. See docs/messages.md for who says what.
#pragma once

#include <caf/all.hpp>
#include <chrono>
#include <string>

static_assert(CAF_VERSION / 100 == 17, "actors/caf.hpp is written for CAF 0.17");

#include "core/error.hpp"

namespace troupe::actors {

/// Fire and forget, from any thread: the only call a completion thread may make.
template <class Handle, class... Ts>
void post(const Handle& to, Ts&&... xs) {
  caf::anon_send(to, std::forward<Ts>(xs)...);
}

/// Nanoseconds of this actor's clock: core::now_ns in production, virtual time in simulation.
template <class Self>
int64_t now_ns(const Self* self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self->clock().now().time_since_epoch()).count();
}

/// Local-only messages carry pointers. They can be sent inside a process and fail closed on the wire.
template <class Inspector>
typename Inspector::result_type refuse_wire([[maybe_unused]] Inspector& f) {
  if constexpr (std::is_same_v<typename Inspector::result_type, caf::error>)
    return caf::make_error(caf::sec::state_not_serializable);
  else
    return f();
}

/// Every actor's first call: a stray error reply must not end it, and an exception keeps its text.
template <class Self, class OnException>
void be_robust(Self* self, OnException on_exception) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_exception_handler([self, on_exception](caf::scheduled_actor*, std::exception_ptr& e) -> caf::error {
    std::string text = "unknown exception";
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& x) {
      text = x.what();
    } catch (...) {
    }
    on_exception(self, text);
    return caf::make_error(caf::sec::runtime_error, text);
  });
}

}  // namespace troupe::actors
