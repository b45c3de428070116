// Owns rules of thumb for memory, before a plan is made: DeepSpeed's estimators and the sizes that follow from its
// stages. The exact memory of a step is in its plan's memory_table.
#pragma once

#include <cstdint>
#include <string>

#include "core/model_table.hpp"

namespace troupe::plan {

/// Size of a model in parameters, as DeepSpeed's estimators count it.
struct model_size {
  uint64_t total = 0;          ///< number of all parameters; a tied one counts once, frozen ones count, too
  uint64_t largest_layer = 0;  ///< number of parameters of the largest module, without the modules inside it
};

/// Computes the size of a model. Parameters whose names are equal up to their last dot belong to one module.
model_size size_of(const core::model_table& table);

/// Numbers of nodes and of GPUs per node, for DeepSpeed's estimators. Both must be at least 1.
struct machine_shape {
  uint32_t gpus_per_node = 1, nodes = 1;
  double buffer_factor = 1.5;  ///< factor on the estimate of host memory: DeepSpeed's `additional_buffer_factor`
};

/// Memory in which DeepSpeed's estimators may place states.
enum class state_home : uint8_t { device, host };
struct estimated_placement {
  state_home optimizer = state_home::host;  ///< memory that holds the optimizer's states: DeepSpeed's `cpu_offload`
  /// Memory that holds the parameters at stage 3: DeepSpeed's `cpu_offload_params`; no effect unless the optimizer is
  /// on the host.
  state_home parameters = state_home::host;
  bool initialised_in_shards = true;  ///< true: the model is created in shards, at stage 3: DeepSpeed's `zero_init`
};

/// Estimated memory needs of a node, in bytes.
struct estimated_needs {
  uint64_t host = 0;           ///< bytes of host memory that a node needs
  uint64_t device = 0;         ///< bytes of device memory that a GPU needs
  uint64_t largest_layer = 0;  ///< stage 3: bytes of the gathered largest layer, a part of `device`
};

/// Returns DeepSpeed's estimate for stage 2, which counts 20 bytes for a parameter: 16-bit parameters and gradients,
/// fp32 gradients and masters, two fp32 moments. Source: DeepSpeed's estimate_zero2_model_states_mem_needs
/// (runtime/zero/stage_1_and_2.py); equal to the byte below 2^48 parameters.
estimated_needs estimate_stage2(uint64_t total_parameters, const machine_shape& shape, state_home optimizer);
/// Returns DeepSpeed's estimate for stage 3, which counts 20 bytes for a parameter: 16-bit parameters and gradients,
/// fp32 gradients and masters, two fp32 moments. Source: DeepSpeed's estimate_zero3_model_states_mem_needs
/// (runtime/zero/stage3.py); equal to the byte below 2^48 parameters.
estimated_needs estimate_stage3(const model_size& size, const machine_shape& shape, const estimated_placement& where);

/// Returns DeepSpeed's table of estimates for stage 2, from a number of parameters: three lines of introduction,
/// headings, a line per placement.
std::string all_cold_stage2(uint64_t total_parameters, const machine_shape& shape);
/// Returns DeepSpeed's table of estimates for stage 3, from the size of a model.
std::string all_cold_stage3(const model_size& size, const machine_shape& shape);

/// Bytes of the model states of one rank with Adam in mixed precision: 16 for a parameter. Stage 1 divides the
/// optimizer's 12 bytes by the number of ranks, stage 2 also the 2 bytes of gradients, stage 3 all 16. The parameters
/// that stage 3 gathers are not included. `stage` is at most 3, `ranks` at least 1.
uint64_t static_state_bytes(uint64_t total_parameters, uint32_t ranks, uint32_t stage);

/// States if backward continues during the reduction of gradients. awaited: nothing is computed during a reduction.
/// overlapped: the next gradients are computed while gradients are reduced.
enum class reduction : uint8_t { awaited, overlapped };

/// Bytes of the buffers that gradients are reduced in. At stages 1 and 2 there are two buffers if the reduction
/// overlaps.
uint64_t static_bucket_bytes(uint64_t bucket_elements, uint64_t element_bytes, uint32_t stage, reduction reduced);

}  // namespace troupe::plan
