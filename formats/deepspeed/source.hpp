// Opens a DeepSpeed checkpoint, of any stage and layout, as a tensor_source. Reads only names, containers and pickles,
// and elements only to match names at stage 0 and to average parameters over tensor-parallel ranks.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/source/source_format.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// A DeepSpeed checkpoint: the folder of one tag, with files for each rank.
extern const source_format deepspeed_format;

/// Opens the DeepSpeed checkpoint in `folder`, which is a tag's own folder. Kinds: trained parameters are `master`
/// (fp32, or the type that the optimizer keeps) with a `moment` for each state of the optimizer under its own key, and
/// `weight` if the module keeps them in another type (stages 0 to 2); parameters that are not trained are `frozen`;
/// tensors that the module lists as buffers are `buffer`; further names of one tensor are tied. Also reads two forms
/// that DeepSpeed's own converter does not read: shards of BF16_Optimizer, and the frozen weights of stage 1. Returns
/// an error that names the file for experts, shapes that do not fill the flat groups, and missing shards.
core::result<tensor_source> read_deepspeed_source(const std::filesystem::path& folder);

}  // namespace troupe::formats
