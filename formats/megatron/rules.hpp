// Returns the rule by which each parameter of a tensor-parallel model is cut: by Megatron's names, by the names in
// files of pipeline layers, by a job's own plan, or by the patterns that the writer of a universal checkpoint
// published. Leaves the arithmetic to cut.hpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/tp_plan.hpp"
#include "formats/megatron/cut.hpp"
#include "formats/torch/pickle_ref.hpp"

namespace troupe::formats {

class torch_archive;

/// Returns the row order that Megatron's `checkpoint_version` states: 0, 1.0 or 2.0. Refused: any other number.
core::result<qkv_version> qkv_version_from(double checkpoint_version);

/// Returns the cut rule of a parameter with one of Megatron's names (deepspeed/runtime/state_dict_factory.py): a
/// fragment of the name decides; a parameter whose name has no known fragment is replicated. `final_linear.weight` is
/// split and joined along dimension 0.
cut_rule megatron_rule(std::string_view name, qkv_version version);
/// True if the name contains a fragment by which megatron_rule() recognises a parameter of Megatron.
bool is_megatron_name(std::string_view name);

/// How a job cuts its parameters over tensor-parallel ranks, by parameter name.
using parameter_cuts = std::map<std::string, core::parameter_cut, std::less<>>;

/// Returns the rule of a parameter that a Troupe job cuts. A vocabulary is padded to equal parts, because other
/// programs cannot read unequal ones.
cut_rule rule_of(const core::parameter_cut& cut);

/// Returns the rule of a name inside one pipeline layer's file, for joining only
/// (deepspeed/checkpoint/deepspeed_checkpoint.py): a few parameters are taken from the first rank, two are cut along
/// dimension 1, all others along dimension 0.
cut_rule layer_rule(std::string_view key);

/// Patterns for the names of parameters that consist of several parts, each cut separately.
struct sub_parameter_pattern {
  std::vector<std::string> patterns;
  /// Shape to which the parameter is reshaped before the cut. The entry at `dimension` is not read; one other entry may
  /// be -1, which is computed from the number of elements.
  std::vector<int64_t> view;
  std::vector<int64_t> part_sizes;  ///< sizes of the parts along `dimension`; empty if only their number is known
  uint32_t parts = 1;               ///< number of equal parts, used if part_sizes is empty
  size_t dimension = 0;
};

/// `universal_checkpoint_info` as its writer published it. Patterns are regular expressions that must match from a
/// name's first character on.
struct universal_patterns {
  double version = 0;  ///< value of `universal_checkpoint_version`
  int64_t original_vocabulary = 0;
  std::vector<std::string> vocabulary, replicated, averaged, row_parallel, two_parts;
  std::vector<sub_parameter_pattern> sub_parameters;
  /// [pattern]: widths of the slices of a matching parameter, [part][rank].
  std::map<std::string, std::vector<std::vector<int64_t>>> shard_widths;
  std::map<std::string, std::string> unsupported;  ///< [pattern]: reason why matching parameters are refused
};

/// Largest number of patterns in one list, and largest size of one pattern in bytes.
inline constexpr size_t max_patterns = 1'000'000, max_pattern_bytes = 4096;

/// Reads `info`, the value of `universal_checkpoint_info` in a model file. Refused: a value without the form of
/// universal_patterns.
core::result<universal_patterns> read_universal_patterns(const torch_archive& file, pickle_ref info);

/// Compiled universal_patterns; finds the cut rule of one parameter name per call.
class pattern_rules {
 public:
  /// Compiles the patterns. Refused: a text that is not a regular expression, and patterns beyond the limits.
  static core::result<pattern_rules> create(universal_patterns patterns);
  pattern_rules(pattern_rules&&) noexcept;
  pattern_rules& operator=(pattern_rules&&) noexcept;
  ~pattern_rules();

  /// Returns the first rule that applies to `name`: replicated, averaged, two parts, parts, else cut along dimension 1
  /// (row parallel) or 0; a vocabulary has its original rows. Refused: a name that two patterns of a list match, a name
  /// that the writer declared unsupported, parts without the widths that the writer's version promises.
  [[nodiscard]] core::result<cut_rule> rule(std::string_view name) const;

 private:
  struct parts;
  explicit pattern_rules(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::formats
