// Reads the optimizer of a DeepSpeed checkpoint without ZeRO. It is stored in the model-state file and numbers its
// parameters, so their names are found by matching them to the module's parameters. Owns that matching.
#pragma once

#include <optional>
#include <vector>

#include "formats/deepspeed/lists.hpp"
#include "formats/torch/archive.hpp"
#include "formats/trainer/update_counts.hpp"

namespace troupe::formats {

/// Maximum number of states of the search for a match that are examined. If a model needs more, its optimizer states
/// get no names.
inline constexpr size_t max_fitting_states = 200'000;
/// Number of leading elements of each parameter whose values are compared with the optimizer's master weights.
inline constexpr uint64_t fitted_elements = 64;

/// Returns masters (of a 16-bit module) and moments by name, read from the key `optimizer`: torch's own state of each
/// parameter, or a wrapper's with `fp32_groups` or `fp32_groups_flat`. The parameters of each group come in the order
/// of `parameters`, the module's own without buffers and further names; some may be in no group. Names are matched by
/// shapes, and by masters that round to the module's values. Returns nothing if no assignment or more than one agrees
/// with shapes and values, or if there is no optimizer.
core::result<std::optional<std::vector<tensor_entry>>> read_stage0(const torch_archive& file, uint32_t number,
                                                                   const named_tensors& parameters);

/// Returns the step counters of the optimizer under the key `optimizer`: those of its parameters or flat groups, which
/// may differ, else those of its parameter groups. Refused: a number that is not a count.
core::result<update_counts> read_stage0_counts(const torch_archive& file);

}  // namespace troupe::formats
