// Runs the part of `troupe compress` that computes with the model: for troupe-train, which loads LibTorch.
#pragma once

#include "apps/compress/compress_calibration.hpp"

namespace troupe::apps {

/// Opens the calibration that `a` describes, for the model of checkpoint `from`. Errors: a text that is missing or too
/// short; a method that requires a text, without one; a model of a family that cannot be computed; a model with a unit
/// that needs more memory than `--host-memory`.
core::result<std::unique_ptr<compress_calibration>> open_calibration(const compress_arguments& a,
                                                                     const described_checkpoint& from);

}  // namespace troupe::apps
