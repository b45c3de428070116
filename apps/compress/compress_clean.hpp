// `troupe compress --clean`: a run's checkpoint with what it was compressed with made permanent, as a checkpoint that a
// run resumes, or as what another format is written from.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "apps/compress/cleaned_checkpoint.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "apps/compress/compress_calibration.hpp"
#include "apps/compress/compress_target.hpp"

namespace troupe::apps {

/// Without `--to`: the cleaned checkpoint as one of ours and its model's config.json.
core::result<void> write_clean(const compress_arguments& a);

/// The checkpoint that is compressed further, cleaned where that is asked for; `grids` are then those that were
/// trained.
using tensor_grids = std::map<std::string, checkpoint::trained_grid>;
core::result<described_checkpoint> open_to_compress(const compress_arguments& a, tensor_grids& grids);

/// The weights that `target` stores on the grids they were trained on, kept in `folder`; `importance` of `with` stays.
core::result<void> store_trained(const tensor_grids& grids, const compress_target& target,
                                 const std::filesystem::path& folder, compress_work& with);

/// How far stored values are from trained ones, and how many weights the format has such a grid for.
std::string as_trained(const compress_summary& written, const checkpoint::prepared_weights& stored,
                       const tensor_grids& grids);

}  // namespace troupe::apps
