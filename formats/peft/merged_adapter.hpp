// Adds a LoRA adapter to the weights of its base model: a source whose changed weights are computed when they are read.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "formats/peft/adapter_folder.hpp"
#include "formats/source/low_rank.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Reads the matrices of all layers of a folder's adapter. Errors: those of peft_adapter::read().
core::result<low_rank_adapter> matrices_of(const peft_adapter& adapter);

/// Returns `base` with the adapter in it: the weight W of each of the adapter's layers becomes W + scale * B A, in
/// fp32, summed in fp64 and rounded once. Changed tensors are of kind `weight`, and their moments are left out.
/// `is_in_out`: the weights of the adapter's layers are (in, out), as those of GPT-2, not (out, in). Errors (mismatch),
/// with layer and base: a layer that the base does not have, that has another shape there, or that shares its weight
/// with another one.
core::result<tensor_source> merged_with(tensor_source base, low_rank_adapter adapter, bool is_in_out);
/// Merges the adapter of a folder; parameters of its `modules_to_save` become the adapter's, with the same errors.
core::result<tensor_source> merged_with(tensor_source base, std::shared_ptr<const peft_adapter> adapter,
                                        bool is_in_out);

}  // namespace troupe::formats
