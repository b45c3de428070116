// A DeepSpeed checkpoint, of any stage and layout, as a tensor_source. Only names, containers and pickles are read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// `path` is the folder with `latest` in it, or a tag's own folder; a `tag` is looked for below `path`. Kinds: trained
/// parameters are `master` (fp32, or what the optimizer keeps) with a `moment` per state of the optimizer by its own
/// key, and `weight` where the module keeps them in another type (stages 0 to 2); parameters that are not trained are
/// `frozen`; `buffer`s as the module lists them; further names of one tensor are tied. Beyond what DeepSpeed's own
/// converter takes: shards of BF16_Optimizer, and stage 1's frozen weights, which it forgets. Refused with the file and
/// what was found there: experts, shapes that do not fill the flat groups, shards that are missing.
core::result<tensor_source> read_deepspeed_source(const std::filesystem::path& path,
                                                  const std::optional<std::string>& tag = std::nullopt);

}  // namespace troupe::checkpoint
