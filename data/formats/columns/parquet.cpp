// Reads the pages of a Parquet column: their headers, levels, dictionaries and values.
#include "data/formats/row_files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "data/formats/columns/delta.hpp"
#include "data/formats/columns/parquet_footer.hpp"
#include "data/formats/columns/parquet_page.hpp"
#include "data/formats/columns/parquet_values.hpp"

namespace troupe::data {
namespace {

using bytes_view = std::span<const std::byte>;

class chunk_reader {  ///< reads the values of the column in one row group (a column chunk)
  using enum parquet::page_type;
  using enum parquet::encoding;

 public:
  chunk_reader(const core::source_file& file, const parquet_chunk& chunk, uint8_t max_definition, size_t group,
               const row_visit& visit)
      : file_(file), chunk_(chunk), max_definition_(max_definition), group_(group), visit_(visit) {}

  core::result<void> read() {
    at_ = chunk_.begin;
    while (values_ < chunk_.values) {
      if (at_ >= end()) return lies(fmt::format("its pages hold {} of {} values", values_, chunk_.values));
      page_ = at_;
      // Calls the visitor without a text before each page, so that it can stop the reading: a small page may expand to
      // many rows.
      TROUPE_TRY(visit_(std::nullopt, at_));
      TROUPE_TRY(read_page());
    }
    return {};
  }

 private:
  [[nodiscard]] uint64_t end() const { return chunk_.begin + chunk_.bytes; }

  [[nodiscard]] core::result<void> lies(const std::string& why) const {
    return fail(error_kind::bad_input,
                fmt::format("'{}': row group {}, page at byte {}: {}", file_.name(), group_, page_, why));
  }

  core::result<page_header> next_header() {
    for (uint64_t wanted = std::min(first_header_bytes, end() - at_);; wanted = std::min(4 * wanted, end() - at_)) {
      packed_.resize(wanted);
      TROUPE_TRY(file_.read(at_, packed_));
      if (const auto got = read_page_header(packed_)) {
        at_ += got->second;
        return got->first;
      }
      if (wanted == end() - at_ || wanted >= max_header_bytes) return fail(lies("a broken header").error());
    }
  }

  core::result<void> read_page() {
    TROUPE_ASSIGN(auto header, next_header());
    const page_header& h = header;
    if (h.bytes < 0 || h.packed_bytes < 0 || static_cast<uint64_t>(h.packed_bytes) > end() - at_)
      return lies(fmt::format("it has {} bytes, {} compressed, but {} are left", h.bytes, h.packed_bytes, end() - at_));
    const auto packed_bytes = static_cast<uint64_t>(h.packed_bytes);
    if (h.type == index_page) {
      at_ += packed_bytes;
      return {};
    }
    if (h.type != data_page && h.type != data_page_2 && h.type != dictionary_page)
      return lies(fmt::format("wanted a page of data or of a dictionary, got type {}", h.type));
    if (h.values < 0 || (h.type != dictionary_page && static_cast<uint64_t>(h.values) > chunk_.values - values_))
      return lies(fmt::format("it has {} values, but {} are left", h.values, chunk_.values - values_));
    if (packed_bytes > max_block_bytes)
      return fail(error_kind::limit,
                  lies(fmt::format("{} bytes, at most {} are read", packed_bytes, max_block_bytes)).error().text);
    // Frees the old buffer before a larger one is allocated, so that both are never in memory at once.
    if (packed_bytes > packed_.capacity()) packed_ = std::vector<std::byte>();
    packed_.resize(packed_bytes);
    TROUPE_TRY(file_.read(at_, packed_));
    at_ += packed_bytes;
    if (h.crc &&
        static_cast<uint32_t>(*h.crc) != crc32_z(0, reinterpret_cast<const Bytef*>(packed_.data()), packed_.size()))
      return lies("its bytes do not match its checksum");
    return h.type == dictionary_page ? keep_dictionary(h) : h.type == data_page ? read_data(h) : read_data_2(h);
  }

  core::result<void> expand(bytes_view packed, uint64_t bytes, std::vector<std::byte>& out) const {
    auto ok = expand_block(chunk_.codec, packed, bytes, out);
    return ok ? ok : fail(ok.error().kind, lies(ok.error().text).error().text);
  }

  core::result<void> keep_dictionary(const page_header& h) {
    if (h.encoding != plain && h.encoding != plain_dictionary)
      return lies(fmt::format("wanted a PLAIN dictionary, got {}", name_of_encoding(h.encoding)));
    if (values_ > 0 || !words_.empty()) return lies("it is a second dictionary");
    TROUPE_TRY(expand(packed_, static_cast<uint64_t>(h.bytes), dictionary_));
    if (static_cast<uint64_t>(h.values) > dictionary_.size() / 4)
      return lies(fmt::format("{} words do not fit in {} bytes", h.values, dictionary_.size()));
    const auto words = static_cast<uint64_t>(h.values);
    if (words * sizeof words_[0] > max_block_bytes - dictionary_.size())
      return fail(
          error_kind::limit,
          lies(fmt::format("a dictionary of {} words in {} bytes: wanted at most {} bytes with {} for each word", words,
                           dictionary_.size(), max_block_bytes, sizeof words_[0]))
              .error()
              .text);
    plain_reader in(dictionary_);
    words_.reserve(words);
    for (uint64_t i = 0; i < words; ++i) {
      words_.push_back(static_cast<uint32_t>(in.at()));
      if (!in.next()) return lies(fmt::format("word {} lies beyond its {} bytes", i, dictionary_.size()));
      TROUPE_TRY(taken());
    }
    return {};
  }

  /// Counts one row or one word of a dictionary; calls the visitor without a text after every rows_between_calls of
  /// them, so that the visitor can stop the reading.
  core::result<void> taken() {
    return ++taken_ % rows_between_calls == 0 ? visit_(std::nullopt, at_) : core::result<void>{};
  }

  core::result<void> read_data(const page_header& h) {
    TROUPE_TRY(expand(packed_, static_cast<uint64_t>(h.bytes), page_bytes_));
    bytes_view rest(page_bytes_), levels;
    if (max_definition_ > 0) {
      if (h.level_encoding != rle)
        return lies(fmt::format("wanted RLE levels, got {}", name_of_encoding(h.level_encoding)));
      uint32_t length = 0;
      if (rest.size() < sizeof length) return lies("its levels are cut off");
      std::memcpy(&length, rest.data(), sizeof length);
      rest = rest.subspan(sizeof length);
      if (length > rest.size())
        return lies(fmt::format("it has {} bytes of levels, but {} are left", length, rest.size()));
      levels = rest.first(length);
      rest = rest.subspan(length);
    }
    return give(h, levels, rest);
  }

  core::result<void> read_data_2(const page_header& h) {
    if (h.repetition_bytes != 0) return lies("it repeats values, wanted one in each row");
    const auto levels = static_cast<uint64_t>(h.definition_bytes);
    if (h.definition_bytes < 0 || levels > packed_.size() || levels > static_cast<uint64_t>(h.bytes))
      return lies(fmt::format("{} bytes of levels in a page of {}", h.definition_bytes, packed_.size()));
    const bytes_view all(packed_);
    const uint64_t bytes = static_cast<uint64_t>(h.bytes) - levels;
    if (!h.packed || bytes == 0) return give(h, all.first(levels), all.subspan(levels));
    TROUPE_TRY(expand(all.subspan(levels), bytes, page_bytes_));
    return give(h, all.first(levels), page_bytes_);
  }

  core::result<void> give(const page_header& h, bytes_view level_bytes, bytes_view values) {
    const bool indexed = h.encoding == plain_dictionary || h.encoding == rle_dictionary;
    const bool differs = h.encoding == delta_length || h.encoding == delta_text;
    if (!indexed && !differs && h.encoding != plain)
      return lies(
          fmt::format("wanted values as PLAIN, RLE_DICTIONARY, DELTA_LENGTH_BYTE_ARRAY or DELTA_BYTE_ARRAY, got {}",
                      name_of_encoding(h.encoding)));
    unsigned width = 0;
    if (indexed && !values.empty()) {
      width = static_cast<unsigned>(values.front());
      values = values.subspan(1);
      if (width > 32) return lies(fmt::format("indices of {} bits", width));
    }
    hybrid_reader levels(level_bytes, static_cast<unsigned>(std::bit_width(max_definition_)));
    hybrid_reader indices(values, width);
    plain_reader texts(values);
    std::optional<delta_texts> deltas;
    if (differs) deltas.emplace(values, h.encoding == delta_text);
    const auto rows = static_cast<uint64_t>(h.values);
    for (uint64_t i = 0; i < rows; ++i) {
      TROUPE_TRY(taken());
      if (max_definition_ > 0) {
        const auto level = levels.next();
        if (!level || *level > max_definition_) return lies(fmt::format("value {} has no valid level", i));
        // Skips all equal levels at once, since a few bytes may state that billions of rows are null.
        if (*level < max_definition_) {
          i += levels.pass_same(rows - i - 1);
          continue;
        }
      }
      std::optional<std::string_view> text;
      if (indexed) {
        const auto index = indices.next();
        if (index && *index >= words_.size())
          return lies(fmt::format("value {} refers to word {} of a dictionary of {}", i, *index, words_.size()));
        if (index) text = plain_reader(dictionary_, words_[*index]).next();
      } else {
        text = deltas ? deltas->next() : texts.next();
      }
      if (!text) return lies(fmt::format("value {} of {} lies beyond its bytes", i, h.values));
      TROUPE_TRY(visit_(*text, at_));
    }
    values_ += rows;
    return {};
  }

  const core::source_file& file_;
  const parquet_chunk& chunk_;
  uint8_t max_definition_;
  size_t group_;
  const row_visit& visit_;
  uint64_t at_ = 0, page_ = 0, values_ = 0, taken_ = 0;
  std::vector<std::byte> packed_, page_bytes_, dictionary_;
  /// [word]: offset in the dictionary page at which the word's length is stored, followed by its text.
  std::vector<uint32_t> words_;
};

}  // namespace

core::result<void> read_parquet(const core::source_file& file, const std::string& key, const row_visit& visit) {
  TROUPE_ASSIGN(const auto column, read_parquet_footer(file, key));
  for (size_t i = 0; i < column.chunks.size(); ++i)
    TROUPE_TRY(chunk_reader(file, column.chunks[i], column.max_definition, i + 1, visit).read());
  return {};
}

}  // namespace troupe::data
