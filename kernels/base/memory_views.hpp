// Memory that a caller gives to one call of a kernel, view by view, and the refusal of views that share bytes where one
// of them is written. Calls of a run are not checked: their memory is the plan's, which the checker proves to be apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"

namespace troupe::kernels {

struct memory_view {
  std::string_view name;  ///< "masters", "a gradient"
  const void* begin = nullptr;
  uint64_t bytes = 0;
  bool is_written = false;
};

/// Refuses the first two of `all` of which one is written and which share bytes. `call`: "an optimizer's update".
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

/// The view of a span's memory.
template <class T>
memory_view view_of(std::string_view name, std::span<T> x) {
  return {name, x.data(), x.size_bytes(), !std::is_const_v<T>};
}

}  // namespace troupe::kernels
