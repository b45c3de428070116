// Writes any checkpoint in DeepSpeed's universal layout: one folder per parameter, which DeepSpeed loads at any degree
// and ZeRO stage (`checkpoint.load_universal`).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/deepspeed/write/writer.hpp"

namespace troupe::formats {

/// How tensor-parallel engines cut parameters, as in DeepSpeed's universal_checkpoint_info: regular expressions that
/// must match a written name from its beginning. A parameter without a match is cut by its rows.
struct published_patterns {
  std::vector<std::string> replicated = {};    ///< patterns of parameters that every rank has whole
  std::vector<std::string> row_parallel = {};  ///< patterns of parameters cut by their columns
  /// patterns of parameters that consist of two stacked matrices, each of which is cut by its rows
  std::vector<std::string> two_parts = {};
  /// Patterns of vocabulary matrices, of which only the first original_vocab_size rows are written, without padding.
  std::vector<std::string> vocabulary = {};
  std::optional<uint64_t> original_vocab_size = {};
};

/// Writes `folder`, and `latest_universal` in its parent. Ignores stage, ranks and tag of `options`; the order of
/// parameters may be unknown. Writes both kinds of model files and both forms of the optimizer's state, so that stages
/// 1, 2 and 3 load it. Frozen parameters and buffers are only in the model files, from which DeepSpeed does not load
/// them. Refused: the cases that write_deepspeed_folder() refuses, and names that cannot name a folder.
core::result<deepspeed_report> write_universal_folder(const tensor_source& from, const std::filesystem::path& folder,
                                                      const deepspeed_write_options& options,
                                                      const published_patterns& patterns = {},
                                                      storage::file_system& files = storage::real_files());

}  // namespace troupe::formats
