// The `compression_training` section: which techniques act on which modules, and from which update on. Owns the form of
// the section; job/compression/compression.hpp applies it to modules, and kernels/compress/compressed_weight.hpp does
// the arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/sections/module_group.hpp"
#include "config/sections/pruning_config.hpp"

namespace troupe::config {

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
  bool stochastic = false;      ///< true: stochastic rounding; false: rounding to nearest
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
  uint64_t keep_number_layer = 0;               ///< number of layers that the model keeps
  std::string module_name_prefix;               ///< layer i of a model is the module `module_name_prefix.i`
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
