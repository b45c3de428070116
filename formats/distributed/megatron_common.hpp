// Reads `common.pt`, in which Megatron-Core stores the counters of the run next to the tensors of its torch_dist
// folders. Leaves tensors to source.hpp.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

inline constexpr std::string_view megatron_common_name = "common.pt";

/// Reads `iteration`, the optimizer's `step`, and from `args` (an argparse.Namespace, read as data) the number of
/// samples consumed so far and the samples per step. Errors name the file.
core::result<source_run> read_megatron_common(const std::filesystem::path& file);

}  // namespace troupe::formats
