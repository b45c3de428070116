#include "storage/memory/pinned_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/memory/locked_memory.hpp"

namespace troupe::storage {

core::result<std::span<std::byte>> pinned_memory::allocate(uint64_t bytes) {
  if (bytes == 0) return core::fail(core::error_kind::bad_input, "pinned memory: wanted at least one byte, got 0");
  // mutex_ is not held while memory is allocated and locked, because the kernel clears every page.
  TROUPE_ASSIGN(auto made, huge_memory::allocate(bytes));
  const auto refused = lock_memory({made.data(), made.bytes()});
  const std::lock_guard lock(mutex_);
  if (buffers_.size() >= pinned_buffers_max)
    return core::fail(
        core::error_kind::limit,
        fmt::format("pinned memory: cannot allocate another buffer: there are {} already", pinned_buffers_max));
  if (refused && std::find(remarks_.begin(), remarks_.end(), *refused) == remarks_.end()) remarks_.push_back(*refused);
  std::byte* first = made.data();
  bytes_ += made.bytes();
  buffers_.emplace(first, std::move(made));
  return std::span(first, bytes);
}

bool pinned_memory::free(std::span<const std::byte> buffer) {
  huge_memory given_back;  // unmapped at the end of the function, after mutex_ is released
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(buffer.data());
  if (found == buffers_.end()) return false;
  given_back = std::move(found->second);
  bytes_ -= given_back.bytes();
  buffers_.erase(found);
  return true;
}

bool pinned_memory::holds(std::span<const std::byte> part) const {
  const std::lock_guard lock(mutex_);
  auto next = buffers_.upper_bound(part.data());
  if (next == buffers_.begin()) return false;
  const auto& buffer = std::prev(next)->second;
  return part.data() + part.size() <= buffer.data() + buffer.bytes();
}

uint64_t pinned_memory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::vector<std::string> pinned_memory::remarks() const {
  const std::lock_guard lock(mutex_);
  return remarks_;
}

}  // namespace troupe::storage
