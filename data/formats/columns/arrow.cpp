// Reads the messages of an Arrow stream one after the other: a schema, then dictionaries and batches.
#include "data/formats/row_files.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "data/formats/columns/arrow_batch.hpp"
#include "data/formats/columns/arrow_views.hpp"

namespace troupe::data {
namespace {

constexpr std::string_view magic{"ARROW1"};
constexpr uint32_t continuation = 0xFFFFFFFF;
enum header_type : uint8_t { schema_header = 1, dictionary_header = 2, batch_header = 3 };
/// Bytes at the end of a file: the footer's length and the magic; bytes of one entry in the footer: offset and lengths
/// of a message.
constexpr uint64_t tail_bytes = 10, block_bytes = 24;

/// The texts ("words") of a dictionary, to which the rows of a dictionary-encoded column refer by number. A word may be
/// null, whether or not a row refers to it.
class dictionary {
 public:
  [[nodiscard]] uint64_t size() const { return ends_.size(); }

  [[nodiscard]] std::optional<std::string_view> word(uint64_t i) const {
    if ((ends_[i] & null_bit) != 0) return std::nullopt;
    const uint64_t begin = i == 0 ? 0 : ends_[i - 1] & ~null_bit;
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

  /// Adds a word; returns false if the dictionary, including the offsets at which its words end, would need more than
  /// max_block_bytes.
  bool add(std::optional<std::string_view> word) {
    const uint64_t bytes = word ? word->size() : 0;
    if (text_.size() + bytes + (ends_.size() + 1) * sizeof ends_[0] > max_block_bytes) return false;
    if (word) text_ += *word;
    ends_.push_back(static_cast<uint32_t>(text_.size()) | (word ? 0 : null_bit));
    return true;
  }

 private:
  static constexpr uint32_t null_bit = uint32_t{1} << 31;
  static_assert(max_block_bytes < null_bit);
  std::string text_;
  std::vector<uint32_t> ends_;
};

class arrow_reader {
 public:
  arrow_reader(const core::source_file& file, const std::string& key, const row_visit& visit)
      : file_(file), key_(key), visit_(visit), end_(file.size()) {}

  core::result<void> read() {
    TROUPE_TRY(begin());
    if (is_file_ && !holds_stream()) return read_by_footer();
    while (at_ < end_) {
      message_ = at_;
      TROUPE_TRY(visit_(std::nullopt, at_));
      TROUPE_ASSIGN(const auto more, read_message());
      if (!more) break;
    }
    if (!column_) return no_arrow("it has no schema");
    if (at_ < end_ && !is_file_) return lies(fmt::format("{} bytes follow its end", end_ - at_));
    return {};
  }

 private:
  [[nodiscard]] core::result<void> no_arrow(const std::string& why) const {
    return fail(error_kind::bad_input,
                fmt::format("'{}' is not a complete Arrow file or stream: {}", file_.name(), why));
  }
  [[nodiscard]] core::result<void> lies(const std::string& why, error_kind kind = error_kind::bad_input) const {
    return fail(kind, fmt::format("'{}': message at byte {}: {}", file_.name(), message_, why));
  }

  /// Finds the byte at which the stream of messages begins: a stream begins at 0, a file contains it between a magic
  /// number and a footer.
  core::result<void> begin() {
    std::array<std::byte, 8> head{};
    if (file_.size() < head.size()) return no_arrow(fmt::format("{} bytes", file_.size()));
    TROUPE_TRY(file_.read(0, head));
    if (std::memcmp(head.data(), "FEA1", 4) == 0) return no_arrow("a Feather file of version 1, which is not read");
    if (std::memcmp(head.data(), magic.data(), magic.size()) != 0) return {};
    is_file_ = true;
    at_ = head.size();
    std::array<std::byte, tail_bytes> tail{};
    if (file_.size() < head.size() + tail.size()) return no_arrow(fmt::format("{} bytes", file_.size()));
    TROUPE_TRY(file_.read(file_.size() - tail.size(), tail));
    if (std::memcmp(tail.data() + 4, magic.data(), magic.size()) != 0) return no_arrow("wanted it to end with ARROW1");
    uint32_t footer = 0;
    std::memcpy(&footer, tail.data(), sizeof footer);
    if (footer > file_.size() - head.size() - tail.size())
      return no_arrow(fmt::format("a footer of {} bytes in a file of {}", footer, file_.size()));
    end_ = file_.size() - tail.size() - footer;
    return {};
  }

  /// True if the file's first message is a schema, as in a stream. Polars' writer begins a file with a schema without
  /// its length; then only the footer states where the messages are.
  bool holds_stream() {
    std::array<uint32_t, 2> lengths{};
    if (end_ - at_ < sizeof lengths || !file_.read(at_, std::as_writable_bytes(std::span(lengths)))) return false;
    const bool marked = lengths[0] == continuation;
    const uint64_t begin = at_ + (marked ? 8 : 4), length = marked ? lengths[1] : lengths[0];
    if (length > max_arrow_message_bytes || length > end_ - begin) return false;
    described_.resize(length);
    if (!file_.read(begin, described_)) return false;
    flat_table::buffer bytes{described_};
    const auto root = flat_table::root(bytes);
    return root.number<uint8_t>(1, 0) == schema_header && root.table(2).exists() && !bytes.broken;
  }

  core::result<void> read_by_footer() {
    const uint64_t footer_bytes = file_.size() - tail_bytes - end_;
    if (footer_bytes > max_arrow_message_bytes)
      return fail(error_kind::limit, fmt::format("'{}': wanted a footer of at most {} bytes, got {}", file_.name(),
                                                 max_arrow_message_bytes, footer_bytes));
    std::vector<std::byte> footer(footer_bytes);
    TROUPE_TRY(file_.read(end_, footer));
    flat_table::buffer bytes{footer};
    const auto root = flat_table::root(bytes);
    const auto schema = root.table(1);
    if (bytes.broken || !schema.exists()) return no_arrow("neither its first message nor its footer is a schema");
    TROUPE_TRY(take(schema_header, schema, root.number<int16_t>(0, 0)));
    // Field 2 of the footer lists dictionaries, field 3 lists batches, which refer to dictionaries.
    for (const unsigned field : {2U, 3U}) {
      const auto blocks = root.vector(field, block_bytes);
      for (uint64_t i = 0; i < blocks.size(); i += block_bytes) {
        int64_t offset = 0;
        std::memcpy(&offset, blocks.data() + i, sizeof offset);
        if (offset < 0 || static_cast<uint64_t>(offset) > end_)
          return no_arrow(fmt::format("its footer names a message at byte {} of {}", offset, end_));
        message_ = at_ = static_cast<uint64_t>(offset);
        TROUPE_TRY(visit_(std::nullopt, at_));
        TROUPE_TRY(read_message());
      }
    }
    return bytes.broken ? no_arrow("its footer is broken") : core::result<void>();
  }

  core::result<uint32_t> number() {
    std::array<std::byte, 4> bytes{};
    if (end_ - at_ < bytes.size()) return fail(lies("it is cut off").error());
    TROUPE_TRY(file_.read(at_, bytes));
    at_ += bytes.size();
    uint32_t out = 0;
    std::memcpy(&out, bytes.data(), sizeof out);
    return out;
  }

  /// Reads the next message; false at the end of the stream.
  core::result<bool> read_message() {
    auto length = number();
    if (length && *length == continuation) length = number();
    if (!length) return fail(length.error());
    if (*length == 0) return false;
    if (*length > max_arrow_message_bytes || *length > end_ - at_)
      return fail(lies(fmt::format("its description has {} bytes, but {} are left and at most {} are read", *length,
                                   end_ - at_, max_arrow_message_bytes))
                      .error());
    described_.resize(*length);
    TROUPE_TRY(file_.read(at_, described_));
    at_ += *length;
    flat_table::buffer bytes{described_};
    const auto root = flat_table::root(bytes);
    const auto version = root.number<int16_t>(0, 0);
    const auto type = root.number<uint8_t>(1, 0);
    const auto header = root.table(2);
    const auto body = root.number<int64_t>(3, 0);
    if (bytes.broken || !header.exists()) return fail(lies("its description is broken").error());
    if (body < 0 || static_cast<uint64_t>(body) > end_ - at_)
      return fail(lies(fmt::format("its body has {} bytes, but {} are left", body, end_ - at_)).error());
    body_begin_ = at_;
    body_bytes_ = static_cast<uint64_t>(body);
    at_ += body_bytes_;
    auto ok = take(type, header, version);
    if (ok && bytes.broken) ok = lies("its description is broken");
    return ok ? core::result<bool>(true) : fail(ok.error());
  }

  core::result<void> take(uint8_t type, const flat_table& header, int16_t version) {
    if (type == schema_header) {
      if (column_) return lies("it is a second schema");
      auto found = find_arrow_column(header, key_, version);
      if (!found) return fail(found.error().in(fmt::format("'{}'", file_.name())));
      column_ = *found;
      return {};
    }
    if (!column_) return lies("wanted a schema first");
    if (type == batch_header) {
      const arrow_batch batch(file_, header, body_begin_, body_bytes_);
      return column_->dictionary ? read_indices(batch)
                                 : read_texts(batch, *column_, [&](auto text, auto at) { return give(text, at); });
    }
    if (type != dictionary_header)
      return lies(fmt::format("wanted a batch of rows or a dictionary, got a message of type {}", type));
    // A dictionary with another id belongs to another column and is skipped.
    if (!column_->dictionary || header.number<int64_t>(0, 0) != *column_->dictionary) return {};
    if (!header.number<uint8_t>(2, 0)) words_ = {};
    arrow_column values = *column_;  // a dictionary's batch has a single column, which contains the words
    values.first_node = values.first_buffer = values.views_before = 0;
    const arrow_batch batch(file_, header.table(1), body_begin_, body_bytes_);
    return read_texts(batch, values, [&](std::optional<std::string_view> word, uint64_t) {
      return words_.add(word)
                 ? core::result<void>{}
                 : lies(fmt::format("a dictionary of more than {} bytes with 4 for each of its words", max_block_bytes),
                        error_kind::limit);
    });
  }

  core::result<void> give(std::optional<std::string_view> text, uint64_t at) const {
    return text ? visit_(text, at) : core::result<void>{};
  }

  /// Returns the error `why` of a batch or of a view, with the name of the file and the position of the message added.
  [[nodiscard]] core::result<void> lies(const core::error& why) const { return lies(why.text, why.kind); }

  /// Calls `look(i, is_null)` for each row number i of the batch. The column's first buffer has one bit for each row
  /// that is not null.
  core::result<void> each_row(const arrow_batch& batch, uint64_t rows, uint64_t validity_index, auto look) {
    auto validity = batch.buffer(validity_index);
    if (!validity) return lies(validity.error());
    if (validity->size() > 0 && validity->size() < (rows + 7) / 8)
      return lies(fmt::format("{} bytes are too few to mark which of {} rows are null", validity->size(), rows));
    for (uint64_t i = 0; i < rows; ++i) {
      if (++taken_ % rows_between_calls == 0) TROUPE_TRY(visit_(std::nullopt, batch.byte_of(i, rows)));
      bool is_null = false;
      if (validity->size() > 0) {
        TROUPE_ASSIGN(const auto bits, validity->read(i / 8, 1));
        is_null = (static_cast<unsigned>(bits.front()) >> (i % 8) & 1) == 0;
      }
      if (core::result<void> ok = look(i, is_null); !ok) return ok;
    }
    return {};
  }

  core::result<void> read_texts(const arrow_batch& batch, const arrow_column& column, auto give) {
    const auto rows = batch.rows(column.first_node);
    if (!rows) return lies(rows.error());
    if (*rows == 0) return {};
    const auto at = batch.find(column, column.view);
    if (!at) return lies(at.error());
    return column.view ? read_views(batch, *rows, *at, give) : read_offsets(batch, *rows, at->first_buffer, give);
  }

  core::result<void> read_views(const arrow_batch& batch, uint64_t rows, const arrow_batch::place& at, auto give) {
    auto views = batch.buffer(at.first_buffer + 1);
    if (!views) return lies(views.error());
    if (rows > views->size() / view_bytes)
      return lies(fmt::format("{} bytes of views are too few for {} rows", views->size(), rows));
    viewed_texts texts(at.text_buffers, [&](uint64_t i) { return batch.buffer(at.first_buffer + 2 + i); });
    return each_row(batch, rows, at.first_buffer, [&](uint64_t i, bool is_null) -> core::result<void> {
      if (is_null) return give(std::nullopt, batch.byte_of(i, rows));
      TROUPE_ASSIGN(const auto view, views->read(i * view_bytes, view_bytes));
      const auto text = texts.text(view);
      if (!text) return lies(text.error().in(fmt::format("row {}", i)));
      return give(*text, batch.byte_of(i, rows));
    });
  }

  core::result<void> read_offsets(const arrow_batch& batch, uint64_t rows, uint64_t first_buffer, auto give) {
    auto offsets = batch.buffer(first_buffer + 1);
    if (!offsets) return lies(offsets.error());
    auto texts = batch.buffer(first_buffer + 2);
    if (!texts) return lies(texts.error());
    const uint64_t width = column_->large ? 8 : 4;
    if (rows >= offsets->size() / width)
      return lies(fmt::format("{} bytes of offsets are too few for {} rows", offsets->size(), rows));
    return each_row(batch, rows, first_buffer, [&](uint64_t i, bool is_null) -> core::result<void> {
      if (is_null) return give(std::nullopt, batch.byte_of(i, rows));
      TROUPE_ASSIGN(const auto begin, offsets->integer(i, width, true));
      TROUPE_ASSIGN(const auto end, offsets->integer(i + 1, width, true));
      if (begin < 0 || end < begin || static_cast<uint64_t>(end) > texts->size())
        return lies(
            fmt::format("row {} has the offsets {} and {}, but there are {} bytes", i, begin, end, texts->size()));
      const auto bytes = static_cast<uint64_t>(end - begin);
      if (bytes > max_row_bytes)
        return lies(fmt::format("row {} has {} bytes, at most {} are read", i, bytes, max_row_bytes),
                    error_kind::limit);
      TROUPE_ASSIGN(const auto text, texts->read(static_cast<uint64_t>(begin), bytes));
      return give(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()), batch.byte_of(i, rows));
    });
  }

  core::result<void> read_indices(const arrow_batch& batch) {
    const auto rows = batch.rows(column_->first_node);
    if (!rows) return lies(rows.error());
    if (*rows == 0) return {};
    const auto at = batch.find(*column_, false);
    if (!at) return lies(at.error());
    auto indices = batch.buffer(at->first_buffer + 1);
    if (!indices) return lies(indices.error());
    if (*rows > indices->size() / column_->index_bytes)
      return lies(fmt::format("{} bytes of indices are too few for {} rows", indices->size(), *rows));
    return each_row(batch, *rows, at->first_buffer, [&](uint64_t i, bool is_null) -> core::result<void> {
      if (is_null) return {};
      TROUPE_ASSIGN(const auto index, indices->integer(i, column_->index_bytes, column_->index_signed));
      if (static_cast<uint64_t>(index) >= words_.size())
        return lies(fmt::format("row {} refers to word {} of a dictionary of {}", i, index, words_.size()));
      return give(words_.word(static_cast<uint64_t>(index)), batch.byte_of(i, *rows));
    });
  }

  const core::source_file& file_;
  const std::string& key_;
  const row_visit& visit_;
  uint64_t at_ = 0, end_, message_ = 0, taken_ = 0, body_begin_ = 0, body_bytes_ = 0;
  bool is_file_ = false;
  std::vector<std::byte> described_;
  std::optional<arrow_column> column_;
  dictionary words_;
};

}  // namespace

core::result<void> read_arrow(const core::source_file& file, const std::string& key, const row_visit& visit) {
  return arrow_reader(file, key, visit).read();
}

}  // namespace troupe::data
