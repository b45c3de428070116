// Adds a LoRA adapter to the weights of its base model: a source whose changed weights are computed when they are read.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "formats/peft/adapter_folder.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Returns `base` with the adapter in it: the weight W of each of the adapter's layers becomes W + scale * B A, in
/// fp32, summed in fp64 and rounded once; parameters of `modules_to_save` become the adapter's. Changed tensors are of
/// kind `weight`, and their moments are left out. `is_in_out`: the weights of the adapter's layers are (in, out), as
/// those of GPT-2, not (out, in). Errors (mismatch), with layer and base: a layer or parameter that the base does not
/// have, that has another shape there, or that shares its weight with another one.
core::result<tensor_source> merged_with(tensor_source base, std::shared_ptr<const peft_adapter> adapter,
                                        bool is_in_out);

}  // namespace troupe::formats
