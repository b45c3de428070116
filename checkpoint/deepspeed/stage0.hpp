// The optimizer of a DeepSpeed checkpoint without ZeRO: it lies in the model-state file and numbers its parameters, so
// names are found by fitting them to the module's. Owns that fitting.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/deepspeed/lists.hpp"
#include "checkpoint/native/manifest.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// States that the fitting looks at; a model beyond that gets no names.
inline constexpr size_t max_fitting_states = 200'000;
/// First elements of a parameter whose values are compared.
inline constexpr uint64_t fitted_elements = 64;

/// Masters (of a 16-bit module) and moments by name, from the key `optimizer`: torch's own state of each parameter, or
/// a wrapper's with `fp32_groups` or `fp32_groups_flat`. Each group's parameters come in the order of `parameters`, the
/// module's own without buffers and further names; some may be in no group. Shapes, and that a master rounds to the
/// module's value, decide which is which; nothing where two ways fit, or none, or there is no optimizer.
core::result<std::optional<std::vector<tensor_entry>>> read_stage0(const torch_archive& file, uint32_t number,
                                                                   const named_tensors& parameters);

}  // namespace troupe::checkpoint
