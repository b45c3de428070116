#include "data/formats/columns/arrow_messages.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "data/formats/row_files.hpp"

namespace troupe::data {
namespace {

constexpr std::string_view arrow_magic{"ARROW1"};
constexpr uint32_t arrow_continuation = 0xFFFFFFFF;
/// Bytes at the end of a file: the footer's length and the magic; bytes of one entry in the footer: offset and lengths
/// of a message.
constexpr uint64_t arrow_tail_bytes = 10, arrow_block_bytes = 24;

}  // namespace

core::result<void> arrow_messages::read(const byte_visit& watch, const message_visit& take) {
  TROUPE_TRY(begin());
  if (is_file_ && !holds_stream()) return read_by_footer(watch, take);
  while (at_ < end_) {
    message_ = at_;
    TROUPE_TRY(watch(at_));
    TROUPE_ASSIGN(const bool more, read_message(take));
    if (!more) break;
  }
  if (!has_schema_) return no_arrow("it has no schema");
  if (at_ < end_ && !is_file_) return lies(fmt::format("{} bytes follow its end", end_ - at_));
  return {};
}

tl::unexpected<core::error> arrow_messages::no_arrow(const std::string& why) const {
  return fail(error_kind::bad_input, fmt::format("'{}' is not a complete Arrow file or stream: {}", file_.name(), why));
}

tl::unexpected<core::error> arrow_messages::lies(const std::string& why, error_kind kind) const {
  return fail(kind, fmt::format("'{}': message at byte {}: {}", file_.name(), message_, why));
}

// Finds the byte at which the stream of messages begins: a stream begins at 0, a file contains it between a magic
// number and a footer.
core::result<void> arrow_messages::begin() {
  std::array<std::byte, 8> head{};
  if (file_.size() < head.size()) return no_arrow(fmt::format("{} bytes", file_.size()));
  TROUPE_TRY(file_.read(0, head));
  if (std::memcmp(head.data(), "FEA1", 4) == 0) return no_arrow("a Feather file of version 1, which is not read");
  if (std::memcmp(head.data(), arrow_magic.data(), arrow_magic.size()) != 0) return {};
  is_file_ = true;
  at_ = head.size();
  std::array<std::byte, arrow_tail_bytes> tail{};
  if (file_.size() < head.size() + tail.size()) return no_arrow(fmt::format("{} bytes", file_.size()));
  TROUPE_TRY(file_.read(file_.size() - tail.size(), tail));
  if (std::memcmp(tail.data() + 4, arrow_magic.data(), arrow_magic.size()) != 0)
    return no_arrow("wanted it to end with ARROW1");
  uint32_t footer = 0;
  std::memcpy(&footer, tail.data(), sizeof footer);
  if (footer > file_.size() - head.size() - tail.size())
    return no_arrow(fmt::format("a footer of {} bytes in a file of {}", footer, file_.size()));
  end_ = file_.size() - tail.size() - footer;
  return {};
}

// Returns whether the file's first message is a schema, as in a stream. Polars' writer begins a file with a schema
// without its length; then only the footer states where the messages are.
bool arrow_messages::holds_stream() {
  std::array<uint32_t, 2> lengths{};
  if (end_ - at_ < sizeof lengths || !file_.read(at_, std::as_writable_bytes(std::span(lengths)))) return false;
  const bool marked = lengths[0] == arrow_continuation;
  const uint64_t begin = at_ + (marked ? 8 : 4), length = marked ? lengths[1] : lengths[0];
  if (length > max_arrow_message_bytes || length > end_ - begin) return false;
  described_.resize(length);
  if (!file_.read(begin, described_)) return false;
  flat_table::buffer bytes{described_};
  const auto root = flat_table::root(bytes);
  return root.number<uint8_t>(1, 0) == static_cast<uint8_t>(arrow_header::schema) && root.table(2).exists() &&
         !bytes.broken;
}

core::result<void> arrow_messages::read_by_footer(const byte_visit& watch, const message_visit& take) {
  const uint64_t footer_bytes = file_.size() - arrow_tail_bytes - end_;
  if (footer_bytes > max_arrow_message_bytes)
    return fail(error_kind::limit, fmt::format("'{}': wanted a footer of at most {} bytes, got {}", file_.name(),
                                               max_arrow_message_bytes, footer_bytes));
  std::vector<std::byte> footer(footer_bytes);
  TROUPE_TRY(file_.read(end_, footer));
  flat_table::buffer bytes{footer};
  const auto root = flat_table::root(bytes);
  const auto schema = root.table(1);
  if (bytes.broken || !schema.exists()) return no_arrow("neither its first message nor its footer is a schema");
  TROUPE_TRY(give(static_cast<uint8_t>(arrow_header::schema), {.version = root.number<int16_t>(0, 0), .header = schema},
                  take));
  // Field 2 of the footer lists dictionaries, field 3 lists batches, which refer to dictionaries.
  for (const unsigned field : {2U, 3U}) {
    const auto blocks = root.vector(field, arrow_block_bytes);
    for (uint64_t i = 0; i < blocks.size(); i += arrow_block_bytes) {
      int64_t offset = 0;
      std::memcpy(&offset, blocks.data() + i, sizeof offset);
      if (offset < 0 || static_cast<uint64_t>(offset) > end_)
        return no_arrow(fmt::format("its footer names a message at byte {} of {}", offset, end_));
      message_ = at_ = static_cast<uint64_t>(offset);
      TROUPE_TRY(watch(at_));
      TROUPE_TRY(read_message(take));
    }
  }
  if (bytes.broken) return no_arrow("its footer is broken");
  return {};
}

core::result<uint32_t> arrow_messages::number() {
  std::array<std::byte, 4> bytes{};
  if (end_ - at_ < bytes.size()) return lies("it is cut off");
  TROUPE_TRY(file_.read(at_, bytes));
  at_ += bytes.size();
  uint32_t out = 0;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

// Reads the next message; returns false at the end of the stream.
core::result<bool> arrow_messages::read_message(const message_visit& take) {
  auto length = number();
  if (length && *length == arrow_continuation) length = number();
  if (!length) return fail(length.error());
  if (*length == 0) return false;
  if (*length > max_arrow_message_bytes || *length > end_ - at_)
    return lies(fmt::format("its description has {} bytes, but {} are left and at most {} are read", *length,
                            end_ - at_, max_arrow_message_bytes));
  described_.resize(*length);
  TROUPE_TRY(file_.read(at_, described_));
  at_ += *length;
  flat_table::buffer bytes{described_};
  const auto root = flat_table::root(bytes);
  const auto version = root.number<int16_t>(0, 0);
  const auto type = root.number<uint8_t>(1, 0);
  const auto header = root.table(2);
  const auto body = root.number<int64_t>(3, 0);
  if (bytes.broken || !header.exists()) return lies("its description is broken");
  if (body < 0 || static_cast<uint64_t>(body) > end_ - at_)
    return lies(fmt::format("its body has {} bytes, but {} are left", body, end_ - at_));
  const arrow_message message{
      .version = version, .header = header, .body_begin = at_, .body_bytes = static_cast<uint64_t>(body)};
  at_ += message.body_bytes;
  TROUPE_TRY(give(type, message, take));
  if (bytes.broken) return lies("its description is broken");
  return true;
}

core::result<void> arrow_messages::give(uint8_t type, const arrow_message& message, const message_visit& take) {
  arrow_message typed = message;
  typed.type = arrow_header{type};
  if (typed.type == arrow_header::schema) {
    if (has_schema_) return lies("it is a second schema");
    has_schema_ = true;
    return take(typed);
  }
  if (!has_schema_) return lies("wanted a schema first");
  if (typed.type != arrow_header::batch && typed.type != arrow_header::dictionary)
    return lies(fmt::format("wanted a batch of rows or a dictionary, got a message of type {}", type));
  return take(typed);
}

}  // namespace troupe::data
