#include "data/formats/columns/arrow_batch.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace troupe::data {
namespace {

/// Bytes of an entry in a batch's metadata, which has two integers: a node (rows, nulls) or a buffer (offset in the
/// body, length).
constexpr uint64_t pair_bytes = 16;
constexpr uint64_t count_bytes = 8;
enum { field_rows = 0, field_nodes = 1, field_buffers = 2, field_compression = 3, field_text_buffers = 4 };

tl::unexpected<core::error> wrong_batch(std::string text, core::error_kind kind = core::error_kind::bad_input) {
  return core::fail(kind, std::move(text));
}

}  // namespace

core::result<uint64_t> arrow_batch::values(uint64_t node) const {
  const auto nodes = header_.vector(field_nodes, pair_bytes);
  if (node >= nodes.size() / pair_bytes)
    return wrong_batch(fmt::format("it has {} columns, wanted column {}", nodes.size() / pair_bytes, node));
  int64_t length = 0;
  std::memcpy(&length, nodes.data() + node * pair_bytes, sizeof length);
  if (length < 0) return wrong_batch(fmt::format("column {} has {} values", node, length));
  return static_cast<uint64_t>(length);
}

core::result<uint64_t> arrow_batch::rows(uint64_t node) const {
  const auto rows = header_.number<int64_t>(field_rows, 0);
  TROUPE_ASSIGN(const uint64_t length, values(node));
  if (rows < 0 || length != static_cast<uint64_t>(rows))
    return wrong_batch(fmt::format("it has {} rows, but the column has {}", rows, length));
  return length;
}

core::result<column_buffer> arrow_batch::buffer(uint64_t index) const {
  const auto buffers = header_.vector(field_buffers, pair_bytes);
  if (index >= buffers.size() / pair_bytes)
    return wrong_batch(fmt::format("it has {} buffers, wanted buffer {}", buffers.size() / pair_bytes, index));
  std::array<int64_t, 2> at{};
  std::memcpy(at.data(), buffers.data() + index * pair_bytes, pair_bytes);
  const auto begin = static_cast<uint64_t>(at[0]), length = static_cast<uint64_t>(at[1]);
  if (begin > body_bytes_ || length > body_bytes_ - begin)
    return wrong_batch(
        fmt::format("buffer {} has {} bytes from byte {}, beyond the body's {}", index, at[1], at[0], body_bytes_));
  block_codec codec = block_codec::none;
  if (const auto compression = header_.table(field_compression); compression.exists()) {
    const auto number = compression.number<int8_t>(0, 0);
    if (number != 0 && number != 1)
      return wrong_batch(fmt::format("wanted none, LZ4 or zstd as compression, got number {}", number));
    codec = number == 0 ? block_codec::lz4_frame : block_codec::zstd;
  }
  return column_buffer::open(file_, body_begin_ + begin, length, codec);
}

core::result<arrow_batch::place> arrow_batch::find(uint64_t first_buffer, uint64_t views_before, bool views) const {
  const auto counts = header_.vector(field_text_buffers, count_bytes);
  const uint64_t wanted = views_before + (views ? 1 : 0);
  if (counts.size() / count_bytes < wanted)
    return wrong_batch(fmt::format("its header has the numbers of buffers of {} columns of views, the schema needs {}",
                                   counts.size() / count_bytes, wanted));
  const uint64_t buffers = header_.vector(field_buffers, pair_bytes).size() / pair_bytes;
  place out{first_buffer, 0};
  for (uint64_t i = 0; i < wanted; ++i) {
    int64_t count = 0;
    std::memcpy(&count, counts.data() + i * count_bytes, sizeof count);
    if (count < 0 || static_cast<uint64_t>(count) > buffers)
      return wrong_batch(fmt::format("a column of views has {} buffers, but there are {}", count, buffers));
    (i == views_before ? out.text_buffers : out.first_buffer) += static_cast<uint64_t>(count);
  }
  return out;
}

}  // namespace troupe::data
