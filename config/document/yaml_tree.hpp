// Writes a configuration as YAML text in block form, from values with dotted keys. Owns the form of sections, lists of
// mappings and names; each value is already YAML on one line (config::as_yaml, config::field_text).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// Returns a name as a part of a dotted key: in quotes unless it is a word, so that dots and brackets in it are not
/// separators.
std::string part_of_key(const std::string& name);

/// Builder of a YAML document: stores keys and values in the order in which they are added.
class yaml_tree {
 public:
  /// Adds a value. `name[2]` as a part of `key` means item 2 of the list `name`; a part in quotes is a literal name.
  void put(std::string_view key, std::string value);
  /// Sets the number of mappings in a list to `items`; mappings without values are written as `{}`.
  void put_list(std::string_view key, size_t items);
  [[nodiscard]] std::string text() const;

 private:
  struct branch {
    std::string name;                  ///< last part of the node's dotted key; empty for an item of a list
    std::optional<std::string> value;  ///< value of the node as YAML; nullopt for a mapping or a list
    bool is_list = false;
    std::vector<branch> children = {};
  };
  branch& at(std::string_view key);
  static branch& child(branch& of, std::string_view name);
  static branch& item(branch& of, size_t number);
  static void write_all(const std::vector<branch>& all, size_t indent, std::string& out);
  static void write(const branch& one, size_t indent, std::string& out);

  branch root_ = {};
};

}  // namespace troupe::config
