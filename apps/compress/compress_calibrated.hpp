// Runs the part of `troupe compress` that computes with the model: for troupe-train, which loads LibTorch.
#pragma once

#include "apps/compress/compress_calibration.hpp"

namespace troupe::apps {

/// Opens the calibration; a calibration_opener. Further refusals: a model of a family that cannot be computed, and one
/// with a unit that does not fit into `--host-memory`.
core::result<std::unique_ptr<compress_calibration>> open_calibration(const compress_arguments& a,
                                                                     const described_checkpoint& from);

}  // namespace troupe::apps
