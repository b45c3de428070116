// Turns exhausted memory into an error value. Owns the rule that public calls whose results have the size that a file
// or a caller states return an error if there is no memory for them, and throw nothing.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace troupe::core {

/// Returns the result of `f`, which is a result<T>. If `f` throws because memory cannot be allocated, or because a
/// vector would be larger than any memory, returns an error of kind limit instead, whose text begins with `where`.
template <class F>
auto with_memory(const std::string& where, F&& f) -> decltype(f()) {
  constexpr const char* why = ": not enough memory";
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    return fail(error_kind::limit, where + why);
  } catch (const std::length_error&) {
    return fail(error_kind::limit, where + why);
  }
}

}  // namespace troupe::core
