// Rules of thumb for memory, before a plan is made: DeepSpeed's estimators and the sizes that follow from its stages.
// The exact memory of a step is not here: the plan's memory_table has it.
#pragma once

#include <cstdint>
#include <string>

#include "core/model_table.hpp"

namespace troupe::plan {

struct model_size {            ///< the estimators' view of a model, in parameters
  uint64_t total = 0;          ///< a tied one counted once, frozen ones too
  uint64_t largest_layer = 0;  ///< the most that one module has by itself, without the modules inside it
};

/// Parameters whose names are equal up to their last dot are one module.
model_size size_of(const core::model_table& table);

/// Machines as the estimators see them. Both numbers of at least 1.
struct machine_shape {
  uint32_t gpus_per_node = 1, nodes = 1;
  double buffer_factor = 1.5;  ///< on host memory: `additional_buffer_factor`
};

/// Where the estimators may put states.
enum class state_home : uint8_t { device, host };
struct estimated_placement {
  state_home optimizer = state_home::host;   ///< `cpu_offload`
  state_home parameters = state_home::host;  ///< `cpu_offload_params`; stage 3, nothing unless the optimizer is there
  bool initialised_in_shards = true;         ///< `zero_init`; stage 3
};

struct estimated_needs {       ///< bytes
  uint64_t host = 0;           ///< of a node
  uint64_t device = 0;         ///< of a GPU
  uint64_t largest_layer = 0;  ///< stage 3: part of `device`: the largest layer when it is whole
};

/// 16-bit parameters and gradients, fp32 gradients and masters, two fp32 moments: 20 bytes for a parameter.
/// Source: DeepSpeed's estimate_zero2_model_states_mem_needs (runtime/zero/stage_1_and_2.py) and
/// estimate_zero3_model_states_mem_needs (runtime/zero/stage3.py): the same numbers to the byte below 2^48 parameters.
estimated_needs estimate_stage2(uint64_t total_parameters, const machine_shape& shape, state_home optimizer);
estimated_needs estimate_stage3(const model_size& size, const machine_shape& shape, const estimated_placement& where);

/// The estimators' tables as DeepSpeed prints them: three lines of introduction, headings, a line per placement.
std::string all_cold_stage2(uint64_t total_parameters, const machine_shape& shape);
std::string all_cold_stage3(const model_size& size, const machine_shape& shape);
std::string all_live_stage2(const core::model_table& table, const machine_shape& shape);
std::string all_live_stage3(const core::model_table& table, const machine_shape& shape);

/// Bytes of the model states of one rank with Adam in mixed precision: 16 for a parameter, of which stage 1 shares the
/// optimizer's 12 among the ranks, stage 2 the gradients' 2 too, stage 3 everything; parameters that stage 3 gathers
/// come on top. `stage` up to 3, `ranks` of at least 1.
uint64_t static_state_bytes(uint64_t total_parameters, uint32_t ranks, uint32_t stage);

/// Whether gradients are reduced while the next ones are computed.
enum class reduction : uint8_t { awaited, overlapped };

/// Bytes of the buffers that gradients are reduced in: at stages 1 and 2 two where it overlaps.
uint64_t static_bucket_bytes(uint64_t bucket_elements, uint64_t element_bytes, uint32_t stage, reduction reduced);

/// Bytes of DeepSpeed's page-locked swap buffers, `count` of them, each of `elements` rounded up to 1024 bytes times
/// `threads` (`aio.intra_op_parallelism`). `element_bytes`: 2 for parameters, 4 for optimizer states, where `elements`
/// are those of the largest sub-group.
uint64_t swap_pool_bytes(uint64_t count, uint64_t elements, uint64_t element_bytes, uint32_t threads);

}  // namespace troupe::plan
