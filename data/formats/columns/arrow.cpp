// Reads the texts of one column in the batches of an Arrow stream; dictionaries hold the words of some columns.
#include "data/formats/row_files.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/columns/arrow_batch.hpp"
#include "data/formats/columns/arrow_messages.hpp"
#include "data/formats/columns/arrow_views.hpp"

namespace troupe::data {
namespace {

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
      : file_(file), key_(key), visit_(visit), messages_(file) {}

  core::result<void> read() {
    return messages_.read([this](uint64_t byte) { return visit_(std::nullopt, byte); },
                          [this](const arrow_message& message) { return take(message); });
  }

 private:
  [[nodiscard]] core::result<void> lies(const std::string& why, error_kind kind = error_kind::bad_input) const {
    return messages_.lies(why, kind);
  }

  core::result<void> take(const arrow_message& message) {
    if (message.type == arrow_header::schema) {
      auto found = find_arrow_column(message.header, key_, message.version);
      if (!found) return fail(found.error().in(fmt::format("'{}'", file_.name())));
      column_ = *found;
      return {};
    }
    if (message.type == arrow_header::batch) {
      const arrow_batch batch(file_, message.header, message.body_begin, message.body_bytes);
      return column_->dictionary ? read_indices(batch)
                                 : read_texts(batch, *column_, [&](auto text, auto at) { return give(text, at); });
    }
    // A dictionary with another id belongs to another column and is skipped.
    if (!column_->dictionary || message.header.number<int64_t>(0, 0) != *column_->dictionary) return {};
    if (!message.header.number<uint8_t>(2, 0)) words_ = {};
    arrow_column values = *column_;  // a dictionary's batch has a single column, which contains the words
    values.first_node = values.first_buffer = values.views_before = 0;
    const arrow_batch batch(file_, message.header.table(1), message.body_begin, message.body_bytes);
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
    const auto at = batch.find(column.first_buffer, column.views_before, column.view);
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
    const auto at = batch.find(column_->first_buffer, column_->views_before, false);
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
  arrow_messages messages_;
  uint64_t taken_ = 0;
  std::optional<arrow_column> column_;
  dictionary words_;
};

}  // namespace

core::result<void> read_arrow(const core::source_file& file, const std::string& key, const row_visit& visit) {
  return arrow_reader(file, key, visit).read();
}

}  // namespace troupe::data
