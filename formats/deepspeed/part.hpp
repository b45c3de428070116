// Reads the tensors of one model-parallel rank of a DeepSpeed checkpoint, under the names in its module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/deepspeed/files.hpp"
#include "formats/deepspeed/optimizer_steps.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

struct deepspeed_part {
  std::vector<tensor_entry> tensors;
  std::vector<tied_name> tied;
  std::vector<std::string> order;     ///< parameters in the order in which the module registers them
  std::vector<unread_tensor> unread;  ///< tensors of the module in types that are not read
  std::vector<std::string> remarks;   ///< remarks on the optimizer's counters
  int64_t stage = 0;
  weight_comparison weights;   ///< filled if the counters of the optimizer and of `run` differ
  bool has_optimizer = false;  ///< true: states of the optimizer exist, and their parameters are known
};

/// A file of a source, with its index in the source's list of files.
struct numbered_archive : torch_archive {
  uint32_t number = 0;
};

/// Opens a file and adds it to `files` if it is not listed there yet.
core::result<numbered_archive> open_numbered(std::vector<source_file>& files, const std::filesystem::path& path);

/// Masters and moments that are stored elsewhere than in optimizer shards, and the ZeRO stage that wrote them.
struct given_states {
  std::vector<tensor_entry> tensors;
  int64_t stage = 0;
};

/// Reads model-parallel rank `mp`. `model` is the rank's first file; `in` lists the other files, which are added to
/// `files` when they are opened. Reads the optimizer shards of the rank, unless `given` has the states, and adds their
/// counters to `steps`. Refused: files of another step than `run` or `steps` states.
core::result<deepspeed_part> read_deepspeed_part(const deepspeed_files& in, uint32_t mp, const numbered_archive& model,
                                                 std::vector<source_file>& files, source_run& run,
                                                 optimizer_steps& steps,
                                                 std::optional<given_states> given = std::nullopt);

}  // namespace troupe::formats
