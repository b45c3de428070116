// Views of the memory that a caller passes to one call of a kernel, and the check that no written view shares bytes
// with another. Used by functions for outside callers; training runs call kernels without this check, because the plan
// lays out their memory and its checker proves that nothing overlaps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"

namespace troupe::kernels {

struct memory_view {
  std::string_view name;  ///< name of the memory in messages: "masters", "a gradient"
  const void* begin = nullptr;
  uint64_t bytes = 0;
  bool is_written = false;
};

/// Returns an error that names the first two views of `all` that share bytes while one of them is written. `call` names
/// the kernel in the error, e.g. "an optimizer's update".
inline core::result<void> check_apart(std::string_view call, std::span<const memory_view> all) {
  const auto at = [](const memory_view& v) { return reinterpret_cast<uintptr_t>(v.begin); };
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      const auto &a = all[i], &b = all[j];
      if ((a.is_written || b.is_written) && at(a) < at(b) + b.bytes && at(b) < at(a) + a.bytes)
        return core::refused(std::string(call) + ": wanted views that overlap nowhere in memory, got " +
                             std::string(a.name) + " and " + std::string(b.name) + " that share bytes");
    }
  return {};
}

/// Returns the view of a span's memory, written if the span is not const.
template <class T>
memory_view view_of(std::string_view name, std::span<T> x) {
  return {name, x.data(), x.size_bytes(), !std::is_const_v<T>};
}

}  // namespace troupe::kernels
