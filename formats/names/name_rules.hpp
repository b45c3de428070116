// Renames the tensors of a checkpoint by rules that a person wrote in the file of `--map`, which docs/checkpoints.md
// describes. Owns the meaning of the lines; leaves reading the file to config/ and names without rules to
// layer_names.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/name_lines.hpp"
#include "formats/names/name_pattern.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

class name_rules {
 public:
  /// Compiles the rules. Refused, with the line: an invalid layer number and an invalid pattern.
  static core::result<name_rules> of(const core::name_lines& all);

  /// Returns the new name of `name` by the rules; nothing if no rule applies. The first rule of `names` whose pattern
  /// matches the whole name applies, else the prefix of its layer.
  [[nodiscard]] std::optional<std::string> find(std::string_view name) const;

  /// Returns find(name) for a tensor of `s`. If no rule applies, tries the tensor's name in the files, which still has
  /// the parts that wrappers of modules added.
  [[nodiscard]] std::optional<std::string> find_in(const tensor_source& s, const std::string& name) const;

  /// Returns the name that find() maps to `name`. Nothing if no rule leads to `name`, if the rule's pattern allows
  /// several names, or if find() applies another rule to the result.
  [[nodiscard]] std::optional<std::string> find_back(const std::string& name) const;

  /// Returns the source with find_in() applied to all names. Refused: two tensors whose new names are equal.
  [[nodiscard]] core::result<tensor_source> applied_to(tensor_source s) const;

 private:
  struct layer_rule {
    uint32_t first = 0, last = 0;
    std::string before, after;  ///< text of the prefix before and after the layer's number
    /// number in the prefix minus the layer's number; none: the prefix has no number
    std::optional<int64_t> and_layer;
  };
  struct name_rule {
    name_pattern pattern;
    std::string to;
    std::optional<name_pattern> back_pattern;  ///< pattern of new names, if the rule can be reversed
    std::string back_to;
  };

  static std::string prefix_of(const layer_rule& rule, uint32_t layer);
  core::result<void> add_layer(const std::string& numbers, const std::string& prefix);
  core::result<void> add_name(const std::string& pattern, const std::string& to);

  std::vector<layer_rule> layers_;
  std::vector<name_rule> names_;
};

}  // namespace troupe::formats
