#include "data/formats/columns/arrow_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/formats/row_files.hpp"

namespace troupe::data {
namespace {

/// Length in bytes of the longest text that a view contains itself. A view has the text's length, then the text; if the
/// text is longer, its first four bytes, the number of the buffer that contains it, and its offset there.
constexpr int32_t inline_bytes_max = 12;

int32_t number_at(std::span<const std::byte> view, size_t at) {
  int32_t out = 0;
  std::memcpy(&out, view.data() + at, sizeof out);
  return out;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

core::result<std::string_view> viewed_texts::text(std::span<const std::byte> view) {
  const int32_t length = number_at(view, 0);
  if (length < 0) return fail(error_kind::bad_input, fmt::format("a text of {} bytes", length));
  const auto bytes = static_cast<uint64_t>(length);
  if (length <= inline_bytes_max) return as_text(view.subspan(4, bytes));
  if (bytes > max_row_bytes)
    return fail(error_kind::limit, fmt::format("a text of {} bytes, at most {} are read", bytes, max_row_bytes));
  const int32_t index = number_at(view, 8), begin = number_at(view, 12);
  if (index < 0 || static_cast<uint64_t>(index) >= buffers_)
    return fail(error_kind::bad_input, fmt::format("a text is in buffer {}, but there are {}", index, buffers_));
  TROUPE_ASSIGN(const auto in, buffer(static_cast<uint64_t>(index)));
  if (begin < 0 || static_cast<uint64_t>(begin) + bytes > in->size())
    return fail(error_kind::bad_input,
                fmt::format("a text of {} bytes begins at byte {}, but there are {} in buffer {}", length, begin,
                            in->size(), index));
  TROUPE_ASSIGN(const auto found, read(static_cast<uint64_t>(index), static_cast<uint64_t>(begin), bytes));
  return as_text(found);
}

core::result<column_buffer*> viewed_texts::buffer(uint64_t index) {
  if (const auto at = opened_.find(index); at != opened_.end()) return &at->second;
  TROUPE_ASSIGN(auto opened, open_(index));
  opened_bytes_ += opened.held_bytes_after(0);
  return &opened_.emplace(index, std::move(opened)).first->second;
}

// Reads bytes of the open buffer `index`. If the open buffers together would occupy more than max_block_bytes, all
// other buffers are closed before, because rows mostly refer to one buffer after the other.
core::result<std::span<const std::byte>> viewed_texts::read(uint64_t index, uint64_t begin, uint64_t bytes) {
  column_buffer& in = opened_.at(index);
  opened_bytes_ -= in.held_bytes_after(0);
  if (opened_bytes_ + in.held_bytes_after(bytes) > max_block_bytes) {
    std::erase_if(opened_, [index](const auto& other) { return other.first != index; });
    opened_bytes_ = 0;
  }
  auto found = in.read(begin, bytes);
  opened_bytes_ += in.held_bytes_after(0);
  return found;
}

}  // namespace troupe::data
