// The low-rank adapters (LoRA) of a model: which linear layers have one, and the rows of adapters in the model's table.
// Owns the names, shapes and initial values of their matrices. Leaves the choice of layers to job/model/adapters.hpp.
// No Torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model_table.hpp"

namespace troupe::models {

/// Ends of the names of an adapter's matrices A (rank, in) and B (out, rank), after the name of their layer. Source:
/// the names in PEFT's files.
inline constexpr std::string_view adapter_a = ".lora_A.weight", adapter_b = ".lora_B.weight";

struct adapter_spec {  ///< the adapters of a model whose other parameters are frozen
  uint32_t rank = 0;
  double alpha = 0;        ///< numerator of the adapters' factor
  bool by_root = false;    ///< true: the factor is alpha / sqrt(rank); false: alpha / rank
  float dropout = 0;       ///< probability with which elements of an adapter's input are dropped in training
  bool is_normal = false;  ///< true: A begins with a normal distribution of deviation 1 / rank; false: kaiming-uniform
  std::vector<std::string> layers;  ///< names of the linear layers with an adapter, in the order of the table
  /// Names of the layers whose own parameters are trained, too, in the order of the table.
  std::vector<std::string> trained;
  /// Names that select exactly `layers` as PEFT matches them: a layer's whole name, or its last parts.
  std::vector<std::string> targets;

  /// Returns the factor of the product of both matrices.
  [[nodiscard]] double scale() const;
};

/// Adds the adapters of `spec` to the table of a model without adapters, behind its parameters, and freezes all other
/// parameters except those of `spec.trained`. Initial values are PEFT's: A is kaiming-uniform with a = sqrt(5), which
/// is uniform within 1 / sqrt(in), or normal; B is 0. `tokens`: number of tokens of a micro-batch that a rank computes,
/// for the costs of the segments, whose elements have `element_bytes` bytes.
void add_adapters(const adapter_spec& spec, double tokens, uint64_t element_bytes, core::model_table& table);

/// Returns the table without the rows of adapters, and, if it had some, without copies of tied parameters. Parameters
/// keep their numbers.
core::model_table without_adapters(core::model_table table);

}  // namespace troupe::models
