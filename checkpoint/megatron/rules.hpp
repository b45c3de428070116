// Says how each parameter of a tensor-parallel model is cut: by Megatron's names, by the names in files of pipeline
// layers, by a job's own plan, or by the patterns that a universal checkpoint's writer published. cut.hpp has the
// arithmetic.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/megatron/cut.hpp"
#include "checkpoint/torch/archive.hpp"
#include "core/tp_plan.hpp"

namespace troupe::checkpoint {

/// 0, 1.0 or 2.0: Megatron's `checkpoint_version`. Refused: any other.
core::result<qkv_version> qkv_version_from(double checkpoint_version);

/// Megatron's own names (deepspeed/runtime/state_dict_factory.py): a fragment of the name decides. Whatever has none
/// of them is the same on all ranks. `final_linear.weight` is cut along dimension 0 and joined again likewise.
cut_rule megatron_rule(std::string_view name, qkv_version version);
/// Whether one of Megatron's fragments is in the name.
bool is_megatron_name(std::string_view name);

/// By a parameter's name.
using parameter_cuts = std::map<std::string, core::parameter_cut, std::less<>>;

/// Of a parameter that a job of ours cuts. A vocabulary is padded as other programs want it, which know none of unequal
/// parts.
cut_rule rule_of(const core::parameter_cut& cut);

/// Names inside one pipeline layer's file, for joining only (deepspeed/checkpoint/deepspeed_checkpoint.py): a few are
/// the first rank's, two are cut along dimension 1, all others along dimension 0.
cut_rule layer_rule(std::string_view key);

/// Parameters of which a pattern says that they are made of parts.
struct sub_parameter_pattern {
  std::vector<std::string> patterns;
  std::vector<int64_t> view;        ///< the entry at `dimension` is not read; -1: whatever is left
  std::vector<int64_t> part_sizes;  ///< of the parts along `dimension`; empty where only their number is known
  uint32_t parts = 1;               ///< equal ones, where part_sizes is empty
  size_t dimension = 0;
};

/// `universal_checkpoint_info` as its writer published it; patterns are regular expressions that must match from a
/// name's first character on.
struct universal_patterns {
  double version = 0;  ///< universal_checkpoint_version
  int64_t original_vocabulary = 0, padded_vocabulary = 0;
  std::vector<std::string> vocabulary, pipeline_replicated, replicated, averaged, row_parallel, two_parts;
  std::vector<sub_parameter_pattern> sub_parameters;
  std::map<std::string, std::vector<std::vector<int64_t>>> shard_widths;  ///< [part][rank] by pattern
  std::map<std::string, std::string> unsupported;                         ///< pattern -> reason
};

/// Patterns of one list, bytes of one pattern.
inline constexpr size_t max_patterns = 1'000'000, max_pattern_bytes = 4096;

/// Reads the value of that key of a model file. Refused: what has not the form described there.
core::result<universal_patterns> read_universal_patterns(const torch_archive& file, pickle_ref info);

/// The patterns, ready to be asked.
class pattern_rules {
 public:
  /// Refused: a text that is no regular expression, more or longer ones than the limits.
  static core::result<pattern_rules> create(universal_patterns patterns);
  pattern_rules(pattern_rules&&) noexcept;
  pattern_rules& operator=(pattern_rules&&) noexcept;
  ~pattern_rules();

  /// The first that applies: replicated, averaged, two parts, parts, else cut along dimension 1 (row parallel) or 0;
  /// a vocabulary has its original rows. Refused: a name that two patterns of a list match, one that the writer
  /// declared unsupported, parts without their widths where the writer's version promises them.
  core::result<cut_rule> rule(std::string_view name);
  /// Whether later pipeline stages have only a copy of it.
  core::result<bool> is_pipeline_replicated(std::string_view name);
  /// Patterns that no name has matched so far, each with the list it stands in.
  [[nodiscard]] std::vector<std::string> unmatched() const;
  [[nodiscard]] const universal_patterns& patterns() const;

 private:
  struct parts;
  explicit pattern_rules(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::checkpoint
