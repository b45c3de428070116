// The `compression_training` section: which techniques act on which modules, and from which update on. Owns the form of
// the section; job/compression/compression.hpp applies it to modules, and kernels/compress/compressed_weight.hpp does
// the arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/module_group.hpp"

namespace troupe::config {

/// Criterion that chooses which parts of a weight are kept.
enum class pruning_method : uint8_t {
  l1,             ///< parts with the largest magnitude of weights at the start of the run are kept
  topk,           ///< parts with the largest learned scores are kept
  snip_momentum,  ///< parts with the largest magnitude of weight times gradient, accumulated over steps, are kept
};

struct pruned_group : module_group {  ///< a group of modules that one pruning technique treats alike
  double dense_ratio = 1;             ///< share of the elements, rows, heads or channels that pruning keeps
  /// [pattern of `modules`]: patterns of the modules from which the same rows, heads or channels are removed; empty:
  /// none.
  std::vector<std::vector<std::string>> related;
};

struct pruning_section {  ///< section `sparse_pruning`, `row_pruning`, `head_pruning` or `channel_pruning`
  bool enabled = false;
  pruning_method method = pruning_method::l1;
  uint64_t schedule_offset = 1000;  ///< number of applied updates before pruning begins
  /// Snip_momentum: number of applied updates at which the mask changes for the last time.
  std::optional<uint64_t> schedule_end = {};
  uint64_t schedule_stride = 1;            ///< snip_momentum: number of applied updates between two changes of the mask
  std::optional<double> dense_ratio = {};  ///< snip_momentum: fraction kept in the end; nullopt: each group's
  std::string block_pattern = "4x1";       ///< snip_momentum: rows x columns that are kept or removed together
  std::vector<std::string> excluded = {};  ///< snip_momentum: patterns of modules that are not pruned
  std::optional<uint64_t> num_heads = {};  ///< number of the model's heads, if heads are pruned
  std::vector<pruned_group> groups = {};
  std::string where = {};  ///< file and line of `enabled`
};

/// Form of a quantisation grid: its values are symmetric about zero, or have an offset.
enum class grid_type : uint8_t { symmetric, asymmetric };

struct weight_group : module_group {  ///< a group of modules under weight_quantization, with its numbers of bits
  uint32_t start_bits = 8, target_bits = 8;
  uint64_t period = 1;  ///< key: quantization_period; steps until the first bit is removed (MoQ); 0: one bit each step
};

struct weight_quantization_section {  ///< configuration section `compression_training.weight_quantization`
  bool enabled = false;
  uint64_t schedule_offset = 0;  ///< number of applied updates before quantisation begins
  /// Number of groups of elements into which a matrix is divided, each with its own scale.
  uint64_t quantize_groups = 1;
  grid_type type = grid_type::symmetric;
  /// Key: quantize_weight_in_forward. True: weights have target_bits from the start; false: bits are removed one by one
  /// (MoQ).
  bool in_forward = false;
  bool stochastic = false;  ///< true: stochastic rounding; false: rounding to nearest
  /// Key: fp16_mixed_quantize; true: weights are a mixture of quantised and unquantised values, see change_ratio.
  bool mixed = false;
  /// Key: quantize_change_ratio; decrease per step of the unquantised values' fraction in the mixture.
  double change_ratio = 0.001;
  std::vector<weight_group> groups;
  std::string where;  ///< file and line of `enabled`
};

struct activation_group : module_group {  ///< a group of modules under activation_quantization, with its number of bits
  uint32_t bits = 8;
};

struct activation_quantization_section {  ///< configuration section `compression_training.activation_quantization`
  bool enabled = false;
  uint64_t schedule_offset = 1000;  ///< number of applied updates before quantisation begins
  grid_type type = grid_type::symmetric;
  bool is_static = false;  ///< key: range_calibration; true: one learned range for all tokens
  std::vector<activation_group> groups;
  std::string where;  ///< file and line of `enabled`
};

struct layer_reduction_section {  ///< configuration section `compression_training.layer_reduction`
  bool enabled = false;
  uint64_t keep_number_layer = 0;       ///< number of layers that the model keeps
  std::string module_name_prefix;       ///< layer i of a model is the module `module_name_prefix.i`
  std::vector<uint64_t> teacher_layer;  ///< [layer of the model]: layer of the teacher from whose weights it starts
  std::vector<std::string> other_module_names;  ///< other modules that start from the teacher's; key: other_module_name
  /// File and line of `enabled`, teacher_layer, module_name_prefix and other_module_name.
  std::string where, layers_where, prefix_where, others_where;
};

struct compression_section {  ///< configuration section `compression_training`
  layer_reduction_section layers;
  weight_quantization_section weights;
  activation_quantization_section activations;
  pruning_section sparse, rows, heads{.method = pruning_method::topk}, channels;

  [[nodiscard]] bool any() const {
    return weights.enabled || activations.enabled || sparse.enabled || rows.enabled || heads.enabled ||
           channels.enabled;
  }
};

}  // namespace troupe::config
