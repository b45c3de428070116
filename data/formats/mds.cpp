// Reads a shard of MosaicML's: the number of samples, the offset of each sample, the columns as JSON, then the samples.
// A sample begins with the sizes of its columns that have no fixed size. Source: mosaicml/streaming,
// base/format/mds/writer.py.
#include "data/formats/row_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/json_text.hpp"
#include "core/text.hpp"

namespace troupe::data {
namespace {

struct mds_column {
  std::string name, encoding;
  std::optional<uint64_t> bytes;  ///< fixed size of the column; nullopt: each sample states it
};

class mds_reader {
 public:
  mds_reader(const core::source_file& file, const std::string& key, const row_visit& visit)
      : file_(file), key_(key), visit_(visit) {}

  core::result<void> read() {
    TROUPE_TRY(read_begin());
    for (uint64_t i = 0; i < samples_; ++i) {
      if (i % rows_between_calls == 0) TROUPE_TRY(visit_(std::nullopt, table_bytes()));
      TROUPE_ASSIGN(const auto range, range_of(i));
      TROUPE_TRY(read_sample(i, range.first, range.second));
    }
    return {};
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> wrong(const std::string& why) const {
    return fail(error_kind::bad_input, fmt::format("'{}' is not a valid MosaicML shard: {}", file_.name(), why));
  }
  [[nodiscard]] uint64_t table_bytes() const { return sizeof(uint32_t) * (2 + samples_); }

  core::result<void> read_begin() {
    uint32_t samples = 0, first = 0;
    if (file_.size() < 8) return wrong(fmt::format("it has {} bytes", file_.size()));
    TROUPE_TRY(file_.read(0, std::as_writable_bytes(std::span(&samples, 1))));
    TROUPE_TRY(file_.read(4, std::as_writable_bytes(std::span(&first, 1))));
    samples_ = samples;
    if (table_bytes() > first || first > file_.size())
      return wrong(fmt::format("its {} samples begin at byte {} of {}", samples_, first, file_.size()));
    std::string text(first - table_bytes(), '\0');
    if (text.size() > max_mds_description_bytes)
      return fail(error_kind::limit, fmt::format("'{}': its columns take {} bytes to describe, at most {} are read",
                                                 file_.name(), text.size(), max_mds_description_bytes));
    TROUPE_TRY(file_.read(table_bytes(), std::as_writable_bytes(std::span(text))));
    return read_columns(text);
  }

  core::result<void> read_columns(const std::string& text) {
    const auto parsed = core::parse_json(text);
    if (!parsed) return wrong("its columns: " + parsed.error().why);
    try {
      const auto names = parsed->at("column_names").get<std::vector<std::string>>();
      const auto encodings = parsed->at("column_encodings").get<std::vector<std::string>>();
      const auto& sizes = parsed->at("column_sizes");
      if (names.size() != encodings.size() || names.size() != sizes.size())
        return wrong("its lists of columns have different lengths");
      for (size_t i = 0; i < names.size(); ++i)
        columns_.push_back(
            {names[i], encodings[i], sizes[i].is_null() ? std::nullopt : std::optional(sizes[i].get<uint64_t>())});
    } catch (const std::exception& e) {
      return wrong(std::string("its columns: ") + e.what());
    }
    std::vector<std::string> names;
    for (const auto& c : columns_) names.push_back(core::shown(c.name));
    const auto mine = std::ranges::find(columns_, key_, &mds_column::name);
    if (mine == columns_.end())
      return fail(error_kind::bad_input, fmt::format("'{}': no column '{}' (data.text_key), it has {}", file_.name(),
                                                     key_, fmt::join(names, ", ")));
    if (std::ranges::count(columns_, key_, &mds_column::name) > 1)
      return fail(error_kind::bad_input,
                  fmt::format("'{}': several columns are named '{}' (data.text_key): rename all but the one to read",
                              file_.name(), key_));
    if (mine->encoding != "str")
      return fail(error_kind::bad_input, fmt::format("'{}': column '{}': wanted text (str), got {}{}", file_.name(),
                                                     key_, core::shown(mine->encoding),
                                                     mine->encoding == "bytes" || mine->encoding.starts_with("ndarray")
                                                         ? "; write tokens as a .bin file"
                                                         : ""));
    column_ = static_cast<size_t>(mine - columns_.begin());
    return {};
  }

  /// Returns the byte range of a sample; reads one block of the table at a time.
  core::result<std::pair<uint64_t, uint64_t>> range_of(uint64_t sample) {
    constexpr uint64_t block = uint64_t{1} << 16;
    if (sample < first_ || sample + 1 >= first_ + offsets_.size()) {
      first_ = sample;
      offsets_.resize(std::min(block, samples_ + 1 - sample));
      TROUPE_TRY(file_.read(sizeof(uint32_t) * (1 + sample), std::as_writable_bytes(std::span(offsets_))));
    }
    const uint64_t begin = offsets_[sample - first_], end = offsets_[sample + 1 - first_];
    if (begin < table_bytes() || begin > end || end > file_.size())
      return wrong(
          fmt::format("sample {} has the offsets {} and {} in a file of {} bytes", sample, begin, end, file_.size()));
    return std::pair(begin, end);
  }

  core::result<void> read_sample(uint64_t number, uint64_t begin, uint64_t end) {
    if (end - begin > max_mds_sample_bytes)
      return fail(error_kind::limit, fmt::format("'{}': sample {} has {} bytes, at most {} are read", file_.name(),
                                                 number, end - begin, max_mds_sample_bytes));
    sample_.resize(end - begin);
    TROUPE_TRY(file_.read(begin, std::as_writable_bytes(std::span(sample_))));
    uint64_t sizes_at = 0, skipped = 0, bytes = 0, all = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      uint64_t size = columns_[i].bytes.value_or(0);
      if (!columns_[i].bytes) {
        uint32_t told = 0;
        if (sample_.size() - sizes_at < sizeof told) return wrong(fmt::format("sample {} is cut short", number));
        std::memcpy(&told, sample_.data() + sizes_at, sizeof told);
        sizes_at += sizeof told;
        size = told;
      }
      if (size > max_mds_sample_bytes) return wrong(fmt::format("sample {} has a column of {} bytes", number, size));
      if (i < column_) skipped += size;
      if (i == column_) bytes = size;
      all += size;
    }
    if (sizes_at + all != sample_.size())
      return wrong(
          fmt::format("sample {} has {} bytes, but its columns have {}", number, sample_.size(), sizes_at + all));
    return visit_(std::string_view(sample_).substr(sizes_at + skipped, bytes), end);
  }

  const core::source_file& file_;
  const std::string& key_;
  const row_visit& visit_;
  uint64_t samples_ = 0, first_ = 0;
  std::vector<mds_column> columns_;
  size_t column_ = 0;
  std::vector<uint32_t> offsets_;  ///< offsets in the file, in bytes, of sample first_ and of the samples after it
  std::string sample_;
};

}  // namespace

core::result<void> read_mds(const core::source_file& file, const std::string& key, const row_visit& visit) {
  return mds_reader(file, key, visit).read();
}

}  // namespace troupe::data
