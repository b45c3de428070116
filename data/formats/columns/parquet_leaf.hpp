// Reads the values of one leaf of a Parquet table's schema, in one row group, with the levels that place them in lists
// and structures. Owns pages and encodings of values of several types; leaves rows to parquet_rows.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/columns/delta.hpp"
#include "data/formats/columns/parquet_footer.hpp"
#include "data/formats/columns/parquet_page.hpp"
#include "data/formats/columns/parquet_values.hpp"

namespace troupe::data {

/// Largest dictionary of a leaf that is read, in bytes.
inline constexpr uint64_t max_leaf_dictionary_bytes = uint64_t{64} << 20;

/// Steps through the entries of a leaf: values, and places at which a list or a structure is missing. Memory: one page,
/// packed and expanded, and the dictionary.
class parquet_leaf {
 public:
  /// Reads the pages of `chunk`. `node` is the leaf, `group` the number of the row group for errors; the bytes of
  /// values are subtracted from `bytes_left`. All must outlive the object.
  parquet_leaf(const core::source_file& file, const parquet_node& node, const parquet_chunk& chunk, size_t group,
               uint64_t& bytes_left)
      : file_(&file), node_(&node), chunk_(&chunk), group_(group), bytes_left_(&bytes_left), at_(chunk.begin) {}

  /// Steps to the next entry; call once before the first. Errors (bad_input, with file, row group and byte): broken
  /// pages, encodings and types that are not read; limit: more than `bytes_left`.
  core::result<void> advance();
  /// True if there is an entry; false after the last one.
  [[nodiscard]] bool has_entry() const { return has_entry_; }
  [[nodiscard]] uint32_t definition() const { return definition_; }
  [[nodiscard]] uint32_t repetition() const { return repetition_; }
  /// Returns the entry's value; null if its level of definition is below the leaf's.
  [[nodiscard]] nlohmann::ordered_json& value() { return value_; }
  [[nodiscard]] uint64_t byte() const { return at_; }

 private:
  using bytes_view = std::span<const std::byte>;

  [[nodiscard]] uint64_t end() const { return chunk_->begin + chunk_->bytes; }
  [[nodiscard]] core::result<void> lies(const std::string& why) const;
  core::result<page_header> next_header();
  core::result<void> read_page();
  core::result<void> expand(bytes_view packed, uint64_t bytes, std::vector<std::byte>& out) const;
  core::result<void> keep_dictionary(const page_header& h);
  core::result<void> open_page(const page_header& h);
  core::result<void> open_page_2(const page_header& h);
  core::result<void> open_values(const page_header& h, bytes_view values);
  core::result<void> read_value();
  /// Returns the next plain value of `from`; nullopt at its end. `bit` counts booleans, of which a byte holds eight.
  std::optional<nlohmann::ordered_json> plain_value(bytes_view& from, uint64_t& bit) const;
  std::optional<nlohmann::ordered_json> next_value();

  const core::source_file* file_;
  const parquet_node* node_;
  const parquet_chunk* chunk_;
  size_t group_;
  uint64_t* bytes_left_;
  uint64_t at_, page_ = 0;
  uint64_t entries_ = 0;    ///< number of entries of the pages before the present one
  uint64_t left_ = 0;       ///< number of entries that are left in the present page
  bool has_entry_ = false;
  uint32_t definition_ = 0, repetition_ = 0;
  nlohmann::ordered_json value_;
  std::vector<std::byte> packed_, page_bytes_;
  std::vector<nlohmann::ordered_json> dictionary_;
  bool has_dictionary_ = false;
  hybrid_reader repetitions_{{}, 0}, definitions_{{}, 0};
  std::optional<hybrid_reader> indices_, flags_;
  std::optional<delta_numbers> numbers_;
  std::optional<delta_texts> texts_;
  bytes_view plain_;
  uint64_t plain_bit_ = 0;
};

}  // namespace troupe::data
