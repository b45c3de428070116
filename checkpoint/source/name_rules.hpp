// Renames the tensors of a checkpoint by rules that a person wrote: the file of `--map`, whose lines
// docs/checkpoints.md describes. Owns what the lines mean; config/ reads the file, layer_names.hpp finds names without
// rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/source/name_pattern.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"
#include "core/name_lines.hpp"

namespace troupe::checkpoint {

class name_rules {
 public:
  /// Refused, with the line: a number of a layer or a pattern that is none.
  static core::result<name_rules> of(const core::name_lines& all);

  /// The name that a rule gives; nothing where none is about it. Of `names` the first one whose pattern holds for all
  /// of the name, else the prefix of its layer.
  [[nodiscard]] std::optional<std::string> find(std::string_view name) const;

  /// The same for a name of `s`; where no rule is about it, for the name with the wrappers' parts that it has in the
  /// files.
  [[nodiscard]] std::optional<std::string> find_in(const tensor_source& s, const std::string& name) const;

  /// The way back: the name that find() gives `name` for. Nothing where no rule leads to it, where its pattern says
  /// more than one name, or where find() has another rule for that one.
  [[nodiscard]] std::optional<std::string> find_back(const std::string& name) const;

  /// The source with these names. Refused: two tensors that get one name.
  [[nodiscard]] core::result<tensor_source> applied_to(tensor_source s) const;

 private:
  struct layer_rule {
    uint32_t first = 0, last = 0;
    std::string before, after;         ///< around the number
    std::optional<int64_t> and_layer;  ///< what is added to the layer's number; nothing where the prefix has none
  };
  struct name_rule {
    name_pattern pattern;
    std::string to;
    std::optional<name_pattern> back_pattern;  ///< of rules that can be read backwards
    std::string back_to;
  };

  static std::string prefix_of(const layer_rule& rule, uint32_t layer);
  core::result<void> add_layer(const std::string& numbers, const std::string& prefix);
  core::result<void> add_name(const std::string& pattern, const std::string& to);

  std::vector<layer_rule> layers_;
  std::vector<name_rule> names_;
};

}  // namespace troupe::checkpoint
