// A configuration file as a tree of nodes with their positions in the file, which the YAML reader and the JSON reader
// produce; the rest of config/ only uses this tree. The tree holds names of keys; the key table (config/keys/) gives
// them a meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/document/place.hpp"

namespace troupe::config {

/// Largest number of bytes of one configuration file; a larger one is refused.
inline constexpr uint64_t most_file_bytes = uint64_t{16} << 20;
/// Largest depth of nested mappings and sequences, also through aliases.
inline constexpr int deepest_nesting = 64;
/// Largest number of values in one file; an alias counts as many values as the node that it repeats.
inline constexpr size_t most_nodes = 100'000;
/// Largest number of diagnostics (errors and warnings) that are kept for one load of a configuration; further ones are
/// only counted.
inline constexpr size_t most_diagnostics = 100;

struct node;
using node_ptr = std::shared_ptr<const node>;

struct entry {  ///< a key of a mapping, its position in the input, and its value
  std::string name;
  place at;  ///< position of `name` in the input
  node_ptr value;
};

/// How a value is written, before its key is known. `plain`: unquoted YAML text, or a JSON number or literal.
enum class node_kind : uint8_t { null, plain, quoted, sequence, mapping };

struct node {  ///< a value of YAML or JSON, with its position in the input
  node_kind kind = node_kind::null;
  place at;
  std::string text;             ///< text of a scalar: a plain or a quoted value
  std::vector<node_ptr> items;  ///< values of a sequence, in order
  std::vector<entry> entries;   ///< entries of a mapping; names are unique
  size_t nodes = 1;             ///< number of values in the subtree, this node included
  int height = 0;               ///< nesting depth of mappings and sequences in the subtree; 0 for a scalar

  [[nodiscard]] bool is_scalar() const { return kind == node_kind::plain || kind == node_kind::quoted; }
  [[nodiscard]] const node* find(std::string_view name) const;
};

/// An error in a document, at position `at` of the input; `key` is empty if the error concerns no single key.
struct problem {
  place at;
  std::string key;
  std::string text;
};

/// The result of reading a document. If `root` is null, `problems` contains exactly one entry, the reason. Otherwise
/// `problems` lists duplicate names, each at the position of the second occurrence.
struct document {
  node_ptr root;
  std::vector<problem> problems;
};

/// Parses YAML text of at most `most_file_bytes`; never throws, and recurses at most `deepest_nesting` deep.
document read_yaml(std::string_view text, uint32_t source);
/// Parses JSON with the limits of read_yaml, as leniently as Hjson: comments (`//`, `#`, `/* */`), commas after last
/// items, no commas between lines, names and texts without quotes.
document read_json(std::string_view text, uint32_t source);

/// Returns a value on one line, for messages: `[0.9, 0.999]`, `"abc"`; cut to `most_characters`.
std::string shown(const node& value, size_t most_characters = 60);

/// Returns the whole value on one line, as YAML that reads back to the same value.
std::string as_yaml(const node& value);

/// Returns a mapping with one entry, for a value that the file does not write as a mapping, such as the value of a
/// `--set`.
node_ptr make_mapping(std::string name, place at, node_ptr value);
/// Returns the mapping `under` with the entries of `over`, which replace entries of the same name; nested mappings are
/// merged in the same way.
node_ptr overlaid(const node_ptr& under, const node_ptr& over);
node_ptr make_scalar(node_kind kind, std::string text, place at);

}  // namespace troupe::config
