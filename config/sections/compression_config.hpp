// The `compression_training` section: which techniques act on which modules, from which update on. Owns their form;
// what a technique makes of a module's weights is job/compression/compression.hpp's choice and
// kernels/weight_grid.hpp's arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/sections/module_group.hpp"
#include "config/sections/pruning_config.hpp"

namespace troupe::config {

/// Where the values of a grid lie.
enum class grid_type : uint8_t { symmetric, asymmetric };

struct weight_group : module_group {  ///< of weight_quantization
  uint32_t start_bits = 8, target_bits = 8;
  uint64_t period = 1;  ///< quantization_period
};

struct weight_quantization_section {  ///< `compression_training.weight_quantization`
  bool enabled = false;
  uint64_t schedule_offset = 0;  ///< updates before it begins
  uint64_t quantize_groups = 1;  ///< runs of a matrix with a scale each
  grid_type type = grid_type::symmetric;
  bool in_forward = false;  ///< quantize_weight_in_forward: at target_bits at once; else bits go one by one (MoQ)
  bool stochastic = false;  ///< rounding
  bool mixed = false;       ///< fp16_mixed_quantize
  double change_ratio = 0.001;
  std::vector<weight_group> groups;
  std::string where;  ///< of `enabled`
};

struct activation_group : module_group {  ///< of activation_quantization
  uint32_t bits = 8;
};

struct activation_quantization_section {  ///< `compression_training.activation_quantization`
  bool enabled = false;
  uint64_t schedule_offset = 1000;
  grid_type type = grid_type::symmetric;
  bool is_static = false;  ///< range_calibration: one range for all tokens, learned
  std::vector<activation_group> groups;
  std::string where;
};

struct layer_reduction_section {  ///< `compression_training.layer_reduction`
  bool enabled = false;
  uint64_t keep_number_layer = 0;
  std::string module_name_prefix;               ///< layer i of a model is the module `module_name_prefix.i`
  std::vector<uint64_t> teacher_layer;          ///< [layer]: the teacher's whose weights it begins with
  std::vector<std::string> other_module_names;  ///< key: other_module_name
  std::string where, layers_where, prefix_where, others_where;  ///< file and line of the keys above
};

struct compression_section {  ///< `compression_training`
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
