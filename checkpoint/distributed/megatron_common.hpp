// What Megatron-Core keeps beside the tensors of its torch_dist folders: `common.pt` with the run's numbers, and the
// file that names the newest folder. Tensors are source.hpp's.
#pragma once

#include <filesystem>
#include <string_view>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view megatron_common_name = "common.pt";
inline constexpr std::string_view megatron_latest_name = "latest_checkpointed_iteration.txt";

/// `iteration`, the optimizer's `step`, and of `args`, which is an argparse.Namespace and read as data, the samples so
/// far and of a step. Errors name the file.
core::result<source_run> read_megatron_common(const std::filesystem::path& file);

/// The folder `iter_0000100` that `latest_checkpointed_iteration.txt` of `root` names. Refused: what is no number.
core::result<std::filesystem::path> megatron_folder(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
