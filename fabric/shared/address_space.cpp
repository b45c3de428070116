#include "fabric/shared/address_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace troupe::fabric {

core::result<void> address_space::add(uint32_t number, std::span<std::byte> bytes) {
  const std::less<const std::byte*> before;
  for (const segment& s : segments_) {
    const bool apart =
        !before(bytes.data(), s.bytes.data() + s.bytes.size()) || !before(s.bytes.data(), bytes.data() + bytes.size());
    if (s.number == number || !apart)
      return core::fail(core::error_kind::bug,
                        fmt::format("shared segment {}: wanted a new one, got {}", number,
                                    apart ? "its number twice" : fmt::format("bytes of segment {}", s.number)));
  }
  const auto at =
      std::ranges::upper_bound(segments_, bytes.data(), before, [](const segment& s) { return s.bytes.data(); });
  segments_.insert(at, {number, bytes});
  return {};
}

std::optional<location> address_space::locate(const std::byte* address) const {
  if (address == nullptr) return location{};
  const std::less<const std::byte*> before;
  const auto behind =
      std::ranges::upper_bound(segments_, address, before, [](const segment& s) { return s.bytes.data(); });
  if (behind == segments_.begin()) return std::nullopt;
  const segment& s = *(behind - 1);
  const auto offset = static_cast<uint64_t>(address - s.bytes.data());
  if (offset >= s.bytes.size()) return std::nullopt;
  return location{s.number, offset};
}

std::byte* address_space::at(const location& where) const {
  for (const segment& s : segments_)
    if (s.number == where.segment && where.offset < s.bytes.size()) return s.bytes.data() + where.offset;
  return nullptr;
}

}  // namespace troupe::fabric
