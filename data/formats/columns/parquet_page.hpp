// The header of a Parquet page. Leaves the page's content to the readers of columns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "data/formats/columns/thrift_reader.hpp"

namespace troupe::data {

/// Bytes of a page header that are read first, and most bytes of one: a header is short, but may contain the smallest
/// and largest text of its page.
inline constexpr uint64_t first_header_bytes = 4096, max_header_bytes = uint64_t{16} << 20;

namespace parquet {

/// Type of a page, by its number in the header.
enum page_type : int64_t { data_page = 0, index_page = 1, dictionary_page = 2, data_page_2 = 3 };
/// Encoding of a page's values, by its number in the header.
enum encoding : int64_t {
  plain = 0,
  plain_dictionary = 2,
  rle = 3,
  delta_binary = 5,
  delta_length = 6,
  delta_text = 7,
  rle_dictionary = 8
};

}  // namespace parquet

inline const char* name_of_encoding(int64_t x) {
  constexpr std::array names{"PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
                             "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
                             "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
  return x >= 0 && x < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(x)] : "an unknown encoding";
}

struct page_header {
  int64_t type = -1, bytes = -1, packed_bytes = -1;
  std::optional<int64_t> crc;
  int64_t values = -1, encoding = -1, level_encoding = parquet::rle;
  int64_t definition_bytes = 0, repetition_bytes = 0;
  bool packed = true;
};

/// Returns the header at the beginning of `bytes` and its length; nullopt if it is truncated or broken.
inline std::optional<std::pair<page_header, size_t>> read_page_header(std::span<const std::byte> bytes) {
  page_header h;
  thrift_reader in(bytes);
  const auto data = [&](int64_t id, uint8_t of) {
    if (id == 1) return h.values = in.integer(of), true;
    if (id == 2) return h.encoding = in.integer(of), true;
    if (id == 3 && h.type == parquet::data_page) return h.level_encoding = in.integer(of), true;
    return false;
  };
  const auto data_2 = [&](int64_t id, uint8_t of) {
    if (id == 1) return h.values = in.integer(of), true;
    if (id == 4) return h.encoding = in.integer(of), true;
    if (id == 5) return h.definition_bytes = in.integer(of), true;
    if (id == 6) return h.repetition_bytes = in.integer(of), true;
    if (id == 7) return h.packed = in.boolean(of), true;
    return false;
  };
  in.structure(t_struct, [&](int64_t id, uint8_t of) {
    if (id == 1) return h.type = in.integer(of), true;
    if (id == 2) return h.bytes = in.integer(of), true;
    if (id == 3) return h.packed_bytes = in.integer(of), true;
    if (id == 4) return h.crc = in.integer(of), true;
    if ((id == 5 && h.type == parquet::data_page) || (id == 7 && h.type == parquet::dictionary_page))
      return in.structure(of, data), true;
    if (id == 8 && h.type == parquet::data_page_2) return in.structure(of, data_2), true;
    return false;
  });
  if (!in.ok()) return std::nullopt;
  return std::pair(h, in.at());
}

}  // namespace troupe::data
