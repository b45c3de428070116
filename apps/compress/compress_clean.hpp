// Runs `troupe compress --clean`: makes the compression of a run's checkpoint permanent, as a checkpoint that a run
// resumes from, or as the input of another format.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "apps/compress/cleaned_checkpoint.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "apps/compress/compress_calibration.hpp"
#include "apps/compress/compress_target.hpp"

namespace troupe::apps {

/// Runs `--clean` without `--to`: writes the cleaned checkpoint as a checkpoint of Troupe, with its model's
/// config.json.
core::result<void> write_clean(const compress_arguments& a);

/// Quantisation grids of trained weights, by the name of the weight's tensor.
using tensor_grids = std::map<std::string, checkpoint::trained_grid>;
/// Opens the checkpoint that is compressed further. If `a.clean` is set, returns it cleaned, and `grids` receives the
/// grids that its weights were trained on.
core::result<described_checkpoint> open_to_compress(const compress_arguments& a, tensor_grids& grids);

/// Converts the weights whose trained grids the format of `target` can represent, stores them in `folder`, and sets
/// `with.prepared` to them; `importance` in `with.prepared` stays unchanged.
core::result<void> store_trained(const tensor_grids& grids, const compress_target& target,
                                 const std::filesystem::path& folder, compress_work& with);

/// Returns a sentence about the largest difference between stored and trained values, and how many weights keep their
/// grid in the format.
std::string as_trained(const compress_summary& written, const checkpoint::prepared_weights& stored,
                       const tensor_grids& grids);

}  // namespace troupe::apps
