// Builds Parquet files that no program writes: files of one column, whose footer and pages are made byte by byte;
// shared by tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "tests/data/text.hpp"

namespace troupe::tests::parquet_made {

inline std::string varint(uint64_t x) {
  std::string out;
  for (; x >= 0x80; x >>= 7) out += static_cast<char>(x | 0x80);
  return out + static_cast<char>(x);
}

struct field {  ///< field of a structure in Thrift's compact form
  int id;
  int type;
  std::string value;
};

inline field number(int id, int64_t x) { return {id, 6, varint(static_cast<uint64_t>(x) << 1)}; }
inline field text(int id, const std::string& x) { return {id, 8, varint(x.size()) + x}; }

inline std::string structure(std::initializer_list<field> fields) {
  std::string out;
  int last = 0;
  for (const auto& f : fields) {
    out += static_cast<char>((f.id - last) << 4 | f.type);
    out += f.value;
    last = f.id;
  }
  return out + '\0';
}
inline field structure(int id, std::initializer_list<field> fields) { return {id, 12, structure(fields)}; }
inline field list(int id, uint64_t count, const std::string& items) { return {id, 9, "\xFC" + varint(count) + items}; }

/// Returns an uncompressed data page of `values` rows; `body` is the page's content.
inline std::string data_page(int64_t values, int64_t encoding, const std::string& body) {
  const auto bytes = static_cast<int64_t>(body.size());
  return structure({number(1, 0), number(2, bytes), number(3, bytes),
                    structure(5, {number(1, values), number(2, encoding), number(3, 3), number(4, 3)})}) +
         body;
}
/// Returns a dictionary page of `words` words with a stated uncompressed size of `bytes` bytes; `body` is the page's
/// content.
inline std::string dictionary_page(int64_t words, int64_t bytes, const std::string& body) {
  return structure({number(1, 2), number(2, bytes), number(3, static_cast<int64_t>(body.size())),
                    structure(7, {number(1, words), number(2, 0)})}) +
         body;
}
/// Returns levels or indices of a page: `count` times the value 0, each with `width` bits.
inline std::string zeros(uint64_t count, unsigned width) {
  return varint(count << 1) + std::string((width + 7) / 8, '\0');
}
inline std::string with_length(const std::string& levels) {
  return as_bytes(std::vector<uint32_t>{static_cast<uint32_t>(levels.size())}) + levels;
}

/// Returns a Parquet file with `pages`, followed by `footer`.
inline std::string file(const std::string& footer, const std::string& pages = "") {
  return "PAR1" + pages + footer + as_bytes(std::vector<uint32_t>{static_cast<uint32_t>(footer.size())}) + "PAR1";
}

/// Returns a file whose schema has `elements` elements and that has no rows.
inline std::string file_of_schema(uint64_t elements, const std::string& schema) {
  return file(structure({number(1, 1), list(2, elements, schema), number(3, 0)}));
}

/// Returns a file of one row group with one column named `text`.
inline std::string file_of_column(bool optional, int64_t rows, int64_t codec, const std::string& pages) {
  const auto bytes = static_cast<int64_t>(pages.size());
  const auto schema = structure({text(4, "schema"), number(5, 1)}) +
                      structure({number(1, 6), number(3, optional ? 1 : 0), text(4, "text")});
  const auto column =
      structure({structure(3, {number(4, codec), number(5, rows), number(7, bytes), number(9, 4), number(11, 4)})});
  const auto group = structure({list(1, 1, column), number(3, rows)});
  return file(structure({number(1, 1), list(2, 2, schema), number(3, rows), list(4, 1, group)}), pages);
}

}  // namespace troupe::tests::parquet_made
