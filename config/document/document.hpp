// A configuration file as a tree of nodes that know where they stand: what the YAML and the JSON reader
// both make, and all that the rest of config/ sees of either. Means nothing yet: keys are only names here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// Bytes of one file.
inline constexpr uint64_t most_file_bytes = uint64_t{16} << 20;
/// Mappings and sequences inside one another, through aliases too.
inline constexpr int deepest_nesting = 64;
/// Values of one file, an alias counted as often as all that it stands for.
inline constexpr size_t most_nodes = 100'000;
/// Reported for one file; what lies beyond is counted only.
inline constexpr size_t most_diagnostics = 100;

/// Where something was written. `source` counts the files and `--set` texts of one load; lines and columns from 1.
struct place {
  uint32_t source = 0;
  int line = 0, column = 0;
};

struct node;
using node_ptr = std::shared_ptr<const node>;

struct entry {  ///< a key, where it stands, and its value
  std::string name;
  place at;  ///< of the name
  node_ptr value;
};

/// How a value is written, before its key is known. `plain`: unquoted YAML text, or a JSON number or literal.
enum class node_kind : uint8_t { null, plain, quoted, sequence, mapping };

struct node {  ///< a value of YAML or JSON, with its place
  node_kind kind = node_kind::null;
  place at;
  std::string text;             ///< of plain and quoted
  std::vector<node_ptr> items;  ///< of a sequence
  std::vector<entry> entries;   ///< of a mapping; names are unique
  size_t nodes = 1;             ///< of the whole subtree
  int height = 0;               ///< mappings and sequences on the longest way down, this one included

  [[nodiscard]] bool is_scalar() const { return kind == node_kind::plain || kind == node_kind::quoted; }
  [[nodiscard]] const node* find(std::string_view name) const;
};

/// Something wrong at a place; `key` may be empty.
struct problem {
  place at;
  std::string key;
  std::string text;
};

/// A document that was read. `root` is null exactly when `problems` holds the one reason why not;
/// otherwise `problems` are duplicate names, each with the place of the second.
struct document {
  node_ptr root;
  std::vector<problem> problems;
};

/// Reads text of at most `most_file_bytes`; never throws, recurses at most `deepest_nesting` deep.
document read_yaml(std::string_view text, uint32_t source);
/// The same for JSON, as lenient as Hjson: comments (`//`, `#`, `/* */`), commas behind last items, none between lines,
/// names and texts without quotes.
document read_json(std::string_view text, uint32_t source);

/// A value on one line, for messages: `[0.9, 0.999]`, `"abc"`; cut to `most_characters`.
std::string shown(const node& value, size_t most_characters = 60);

/// The whole value on one line, as YAML that reads back to the same.
std::string as_yaml(const node& value);

/// A mapping with one entry, for values that were not written as such.
node_ptr make_mapping(std::string name, place at, node_ptr value);
/// The mapping `under` with what `over` has in the place of the same names, mappings within them likewise.
node_ptr overlaid(const node_ptr& under, const node_ptr& over);
node_ptr make_scalar(node_kind kind, std::string text, place at);

}  // namespace troupe::config
