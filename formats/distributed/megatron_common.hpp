// Reads what Megatron-Core stores next to the tensors of its torch_dist folders: `common.pt` with the counters of the
// run, and the file that names the newest folder. Leaves tensors to source.hpp.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

inline constexpr std::string_view megatron_common_name = "common.pt";
inline constexpr std::string_view megatron_latest_name = "latest_checkpointed_iteration.txt";

/// Reads `iteration`, the optimizer's `step`, and from `args` (an argparse.Namespace, read as data) the number of
/// samples consumed so far and the samples per step. Errors name the file.
core::result<source_run> read_megatron_common(const std::filesystem::path& file);

/// Returns the folder that `latest_checkpointed_iteration.txt` in `root` names: `iter_0000100` for the number 100, or
/// `release`, which Megatron's converters write. Refused: any other text.
core::result<std::filesystem::path> megatron_folder(const std::filesystem::path& root);

}  // namespace troupe::formats
