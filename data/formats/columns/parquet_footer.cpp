// Reads a Parquet footer once, and keeps only the parts of its schema and row groups that concern the requested column.
#include "data/formats/columns/parquet_footer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <tl/expected.hpp>
#include <utility>

#include "core/text.hpp"
#include "data/formats/columns/thrift_reader.hpp"

namespace troupe::data {
namespace {

constexpr uint64_t magic_bytes = 4;
constexpr uint64_t end_bytes = 8;  // the last bytes of the file: the footer's length, then the magic number
constexpr int64_t type_byte_array = 6;
constexpr size_t names_shown = 8, name_shown_bytes = 64;
constexpr size_t max_name_bytes = 65536;

const char* name_of_type(int64_t type) {
  constexpr std::array names{"booleans", "int32",   "int64", "int96",
                             "float32",  "float64", "text",  "bytes of one length"};
  return type >= 0 && type < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(type)] : "an unknown type";
}

const char* name_of_codec(int64_t codec) {
  constexpr std::array names{"none", "snappy", "gzip", "LZO", "Brotli", "LZ4", "zstd", "LZ4_RAW"};
  return codec >= 0 && codec < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(codec)] : "unknown";
}

enum converted_type : int64_t { converted_map = 1, converted_map_entry = 2, converted_list = 3, converted_decimal = 5 };
enum logical_type : int64_t { logical_map = 2, logical_list = 3 };

struct schema_element {
  int64_t type = -1, repetition = 0, children = 0, converted = -1, logical = -1;
  std::string_view name;
};

struct column_chunk {
  int64_t codec = 0, values = 0, bytes = 0, data_page = 0, dictionary_page = 0;
  bool elsewhere = false, encrypted = false, described = false;
};

const char* name_of_group(const schema_element& e) {
  if (e.converted == converted_map || e.converted == converted_map_entry || e.logical == logical_map) return "map";
  return e.converted == converted_list || e.logical == logical_list ? "list" : "structure";
}

/// Finds the column among the leaves of the schema, in which groups come before their members.
class schema_search {
 public:
  explicit schema_search(std::string_view key) : key_(key) {}

  void add(const schema_element& e) {
    const bool leaf = e.children == 0 && e.type >= 0;
    if (e.name.size() > max_name_bytes || e.children < 0) broken_ = true;
    if (broken_) return;
    if (groups_.empty()) {
      if (seen_root_) broken_ = true;
      seen_root_ = true;
      groups_.push_back({.children = e.children, .left_of_key = key_});
      return close();
    }
    auto& in = groups_.back();
    --in.children;
    const bool shows = leaves_ < names_shown;
    const std::string path =
        !shows ? "" : fmt::format("{}{}", in.path, e.name.substr(0, name_shown_bytes)).substr(0, name_shown_bytes);
    const char* const repeated =
        in.repeated == nullptr && e.repetition == 2 ? std::string_view(in.kind) == "map" ? "map" : "list" : in.repeated;
    const int definition = in.definition + (e.repetition == 0 ? 0 : 1);
    const bool is_key = in.left_of_key == e.name;
    if (is_key && found_ && found_->name == e.name) is_twice = true;
    if (is_key && !found_) {
      found_ = e;
      other = repeated != nullptr ? repeated : leaf ? nullptr : name_of_group(e);
      column = leaves_;
      max_definition = definition;
    }
    if (leaf) {
      ++leaves_;
      if (shows) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", core::shown(path));
    } else {
      if (groups_.size() >= 32) broken_ = true;
      if (!broken_)
        groups_.push_back(
            {shows ? path + "." : "", e.children, definition, repeated, name_of_group(e), in.rest_behind(e.name)});
    }
    close();
  }

  [[nodiscard]] const std::optional<schema_element>& found() const { return found_; }
  [[nodiscard]] bool whole() const { return seen_root_ && groups_.empty() && !broken_; }

  std::string names;  ///< names of the schema's first columns, for the message that the searched column is missing
  size_t column = 0;  ///< index of the searched column among the leaves
  int max_definition = 0;
  bool is_twice = false;  ///< true: several columns have the searched name
  /// Kind of the found column, such as "list", if it has no single value for each row; else null.
  const char* other = nullptr;

 private:
  /// A group of the schema. Names may be long and elements many, so the group keeps only the part of its path that
  /// messages show, and how much of the key the path matches.
  struct group {
    std::string path{};
    int64_t children = 0;  ///< number of the group's direct members that have not been read yet
    int definition = 0;
    const char* repeated = nullptr;  ///< "list" or "map" if the members are in a repeated group; else null
    const char* kind = "structure";
    /// Rest of the key after the group's path; nullopt: the key does not begin with that path.
    std::optional<std::string_view> left_of_key{};

    [[nodiscard]] std::optional<std::string_view> rest_behind(std::string_view name) const {
      if (!left_of_key || left_of_key->size() <= name.size() || (*left_of_key)[name.size()] != '.' ||
          !left_of_key->starts_with(name))
        return std::nullopt;
      return left_of_key->substr(name.size() + 1);
    }
  };
  void close() {
    while (!groups_.empty() && groups_.back().children <= 0) groups_.pop_back();
  }

  std::string_view key_;
  std::vector<group> groups_;
  std::optional<schema_element> found_;
  size_t leaves_ = 0;
  bool seen_root_ = false, broken_ = false;
};

schema_element read_element(thrift_reader& in, uint8_t type) {
  schema_element e;
  in.structure(type, [&](int64_t id, uint8_t of) {
    if (id == 1) return e.type = in.integer(of), true;
    if (id == 3) return e.repetition = in.integer(of), true;
    if (id == 4) return e.name = in.text(of), true;
    if (id == 5) return e.children = in.integer(of), true;
    if (id == 6) return e.converted = in.integer(of), true;
    if (id == 10) return in.structure(of, [&](int64_t which, uint8_t) { return e.logical = which, false; }), true;
    return false;
  });
  return e;
}

column_chunk read_chunk(thrift_reader& in, uint8_t type) {
  column_chunk c;
  in.structure(type, [&](int64_t id, uint8_t of) {
    if (id == 1) c.elsewhere = true;
    if (id == 8) c.encrypted = true;
    if (id != 3) return false;
    c.described = true;
    in.structure(of, [&](int64_t field, uint8_t t) {
      if (field == 4) return c.codec = in.integer(t), true;
      if (field == 5) return c.values = in.integer(t), true;
      if (field == 7) return c.bytes = in.integer(t), true;
      if (field == 9) return c.data_page = in.integer(t), true;
      if (field == 11) return c.dictionary_page = in.integer(t), true;
      return false;
    });
    return true;
  });
  return c;
}

/// Returns the place of a column's pages in a row group; if it is not read, or outside the file, a text that says why.
tl::expected<parquet_chunk, std::string> checked_chunk(const column_chunk& mine, const std::string& key,
                                                       uint64_t pages_end, uint64_t file_bytes) {
  const auto lies = [](std::string why) { return tl::unexpected<std::string>(std::move(why)); };
  if (!mine.described) return lies(fmt::format("it does not describe the column '{}'", key));
  if (mine.elsewhere) return lies(fmt::format("the column '{}' is in another file, which is not read", key));
  if (mine.encrypted) return lies(fmt::format("the column '{}' is encrypted, which is not read", key));
  parquet_chunk c;
  if (mine.codec == 0) {
    c.codec = block_codec::none;
  } else if (mine.codec == 1) {
    c.codec = block_codec::snappy;
  } else if (mine.codec == 2) {
    c.codec = block_codec::gzip;
  } else if (mine.codec == 6) {
    c.codec = block_codec::zstd;
  } else if (mine.codec == 7) {
    c.codec = block_codec::lz4_block;
  } else {
    return lies(fmt::format("wanted none, snappy, gzip, zstd or LZ4_RAW as compression of the column '{}', got {}", key,
                            name_of_codec(mine.codec)));
  }
  const int64_t begin = mine.dictionary_page > 0 ? std::min(mine.dictionary_page, mine.data_page) : mine.data_page;
  if (mine.values < 0) return lies(fmt::format("the column '{}' has {} values", key, mine.values));
  if (begin < 0 || mine.bytes < 0 || static_cast<uint64_t>(begin) > pages_end ||
      static_cast<uint64_t>(mine.bytes) > pages_end - static_cast<uint64_t>(begin))
    return lies(fmt::format("the column '{}' has {} bytes from byte {}, beyond the file's {}", key, mine.bytes, begin,
                            file_bytes));
  c.begin = static_cast<uint64_t>(begin);
  c.bytes = static_cast<uint64_t>(mine.bytes);
  c.values = static_cast<uint64_t>(mine.values);
  return c;
}

/// Reads the bytes of the footer, which the file has after its pages.
core::result<std::vector<std::byte>> footer_of(const core::source_file& file) {
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("'{}' is not a complete Parquet file: {}", file.name(), why));
  };
  if (file.size() < magic_bytes + end_bytes) return wrong(fmt::format("{} bytes", file.size()));
  std::array<std::byte, end_bytes> tail{};
  TROUPE_TRY(file.read(file.size() - end_bytes, tail));
  const std::string_view ends(reinterpret_cast<const char*>(tail.data()) + 4, magic_bytes);
  if (ends == "PARE")
    return fail(error_kind::bad_input, fmt::format("'{}' is encrypted, which is not read", file.name()));
  if (ends != "PAR1") return wrong("wanted it to end with PAR1");
  uint32_t length = 0;
  std::memcpy(&length, tail.data(), sizeof length);
  if (length > file.size() - magic_bytes - end_bytes)
    return wrong(fmt::format("a footer of {} bytes in a file of {}", length, file.size()));
  if (length > max_parquet_footer_bytes)
    return fail(error_kind::limit, fmt::format("'{}' has a footer of {} bytes, at most {} are read", file.name(),
                                               length, max_parquet_footer_bytes));
  std::vector<std::byte> out(length);
  TROUPE_TRY(file.read(file.size() - end_bytes - length, out));
  return out;
}

/// Builds the tree of a schema from its elements, in which groups come before their members.
class schema_tree {
 public:
  explicit schema_tree(const std::vector<schema_element>& elements) : elements_(elements) {}

  /// Returns the tree of all columns; nullopt if the elements form none.
  std::optional<parquet_node> build() {
    if (elements_.empty()) return std::nullopt;
    parquet_node root = take(0, 0, 0);
    if (is_broken_ || next_ != elements_.size()) return std::nullopt;
    return root;
  }

 private:
  static constexpr int max_depth = 32;

  parquet_node take(int definition, int repetition, int depth) {
    parquet_node out;
    if (next_ >= elements_.size() || depth > max_depth || elements_[next_].children < 0 ||
        elements_[next_].name.size() > max_name_bytes) {
      is_broken_ = true;
      return out;
    }
    const schema_element& e = elements_[next_++];
    out.name = std::string(e.name);
    out.is_optional = depth > 0 && e.repetition == 1;
    out.is_repeated = depth > 0 && e.repetition == 2;
    out.definition = static_cast<uint8_t>(definition + (out.is_optional || out.is_repeated ? 1 : 0));
    out.repetition = static_cast<uint8_t>(repetition + (out.is_repeated ? 1 : 0));
    out.is_list = e.converted == converted_list || e.logical == logical_list;
    out.is_map = e.converted == converted_map || e.converted == converted_map_entry || e.logical == logical_map;
    if (e.children == 0) {
      out.type = e.type;
      out.kind = e.converted == converted_decimal ? "decimals" : name_of_type(e.type);
      out.is_decimal = e.converted == converted_decimal;
      out.leaf = leaves_++;
    }
    for (int64_t i = 0; i < e.children && !is_broken_; ++i)
      out.members.push_back(take(out.definition, out.repetition, depth + 1));
    return out;
  }

  const std::vector<schema_element>& elements_;
  size_t next_ = 0, leaves_ = 0;
  bool is_broken_ = false;
};

/// Adds the numbers of the leaves below `node`.
void add_leaves(const parquet_node& node, std::vector<size_t>& to) {
  if (node.members.empty()) to.push_back(node.leaf);
  for (const auto& member : node.members) add_leaves(member, to);
}

}  // namespace

core::result<parquet_column> read_parquet_footer(const core::source_file& file, const std::string& key) {
  TROUPE_ASSIGN(const auto footer, footer_of(file));
  const uint64_t pages_end = file.size() - end_bytes - footer.size();
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("'{}': {}", file.name(), why));
  };
  parquet_column out;
  schema_search schema(key);
  std::string problem;  // description of the first problem in the footer; empty: none so far
  const auto take_group = [&](thrift_reader& in, uint8_t type) {
    std::optional<column_chunk> mine;
    int64_t rows = -1;
    in.structure(type, [&](int64_t id, uint8_t of) {
      if (id == 3) return rows = in.integer(of), true;
      if (id != 1) return false;
      size_t column = 0;
      in.list(of, [&](uint8_t t) {
        if (column++ == schema.column)
          mine = read_chunk(in, t);
        else
          in.skip(t);
      });
      return true;
    });
    if (!in.ok() || !problem.empty()) return;
    const size_t number = out.chunks.size() + 1;
    const auto lies = [&](const std::string& why) { problem = fmt::format("row group {}: {}", number, why); };
    if (mine && mine->described && mine->values >= 0 && mine->values != rows)
      return lies(
          fmt::format("wanted a value for each of its {} rows in the column '{}', got {}", rows, key, mine->values));
    const auto made = checked_chunk(mine.value_or(column_chunk()), key, pages_end, file.size());
    if (!made) return lies(made.error());
    out.chunks.push_back(*made);
  };
  thrift_reader in(footer);
  in.structure(t_struct, [&](int64_t id, uint8_t type) {
    if (id == 2) return in.list(type, [&](uint8_t of) { schema.add(read_element(in, of)); }), true;
    if (id != 4 || !schema.found() || !schema.whole()) return false;
    return in.list(type, [&](uint8_t of) { take_group(in, of); }), true;
  });
  if (!in.ok() || !schema.whole()) return wrong(fmt::format("a broken Parquet footer at its byte {}", in.at()));
  if (!schema.found())
    return wrong(fmt::format("wanted a column '{}' with the text (data.text_key), got {}", key,
                             schema.names.empty() ? "none" : schema.names));
  if (schema.is_twice)
    return wrong(fmt::format("several columns are named '{}' (data.text_key): rename all but the one to read", key));
  if (schema.other != nullptr) return wrong(fmt::format("wanted text in the column '{}', got a {}", key, schema.other));
  if (schema.found()->type != type_byte_array || schema.found()->converted == converted_decimal)
    return wrong(
        fmt::format("wanted text in the column '{}', got {}", key,
                    schema.found()->converted == converted_decimal ? "decimals" : name_of_type(schema.found()->type)));
  if (!problem.empty()) return wrong(problem);
  out.max_definition = static_cast<uint8_t>(schema.max_definition);
  return out;
}

core::result<parquet_table> read_parquet_table(const core::source_file& file, const std::vector<std::string>& columns) {
  TROUPE_ASSIGN(const auto footer, footer_of(file));
  const uint64_t pages_end = file.size() - end_bytes - footer.size();
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("'{}': {}", file.name(), why));
  };
  std::vector<schema_element> elements;
  parquet_table out;
  std::vector<size_t> leaves;
  std::string names, problem;
  bool is_known = false;
  const auto choose = [&] {
    auto root = schema_tree(elements).build();
    if (!root) return;
    is_known = true;
    for (size_t i = 0; i < root->members.size(); ++i) {
      auto& column = root->members[i];
      if (i < names_shown) names += fmt::format("{}'{}'", i > 0 ? ", " : "", column.name.substr(0, name_shown_bytes));
      if (std::ranges::find(columns, column.name) != columns.end()) out.columns.push_back(std::move(column));
    }
    for (const auto& column : out.columns) add_leaves(column, leaves);
  };
  const auto take_group = [&](thrift_reader& in, uint8_t type) {
    parquet_row_group group;
    std::vector<column_chunk> all;
    int64_t rows = -1;
    in.structure(type, [&](int64_t id, uint8_t of) {
      if (id == 3) return rows = in.integer(of), true;
      if (id != 1) return false;
      in.list(of, [&](uint8_t t) { all.push_back(read_chunk(in, t)); });
      return true;
    });
    if (!in.ok() || !problem.empty()) return;
    if (rows < 0) problem = fmt::format("row group {}: {} rows", out.groups.size() + 1, rows);
    for (const size_t leaf : leaves) {
      const auto made = checked_chunk(leaf < all.size() ? all[leaf] : column_chunk(),
                                      fmt::format("number {}", leaf + 1), pages_end, file.size());
      if (!made && problem.empty()) problem = fmt::format("row group {}: {}", out.groups.size() + 1, made.error());
      group.chunks.push_back(made.value_or(parquet_chunk()));
    }
    group.rows = static_cast<uint64_t>(rows);
    out.groups.push_back(std::move(group));
  };
  thrift_reader in(footer);
  in.structure(t_struct, [&](int64_t id, uint8_t type) {
    if (id == 2) {
      in.list(type, [&](uint8_t of) { elements.push_back(read_element(in, of)); });
      if (in.ok()) choose();
      return true;
    }
    if (id != 4 || !is_known) return false;
    return in.list(type, [&](uint8_t of) { take_group(in, of); }), true;
  });
  if (!in.ok() || !is_known) return wrong(fmt::format("a broken Parquet footer at its byte {}", in.at()));
  if (out.columns.empty())
    return wrong(fmt::format("wanted one of the columns {}, got {}", fmt::join(columns, ", "),
                             names.empty() ? "none" : names));
  if (!problem.empty()) return wrong(problem);
  // The leaves of the chosen columns get the numbers of their chunks.
  size_t number = 0;
  const std::function<void(parquet_node&)> renumber = [&](parquet_node& node) {
    if (node.members.empty()) node.leaf = number++;
    for (auto& member : node.members) renumber(member);
  };
  for (auto& column : out.columns) renumber(column);
  return out;
}

}  // namespace troupe::data
