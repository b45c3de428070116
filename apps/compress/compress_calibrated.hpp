// The part of `troupe compress` that computes with the model: for troupe-train, which loads LibTorch.
#pragma once

#include "apps/compress/compress_calibration.hpp"

namespace troupe::apps {

/// A calibration_opener. Refused besides: a model of a family that is not computed here, and one of which a unit does
/// not fit `--host-memory`.
core::result<std::unique_ptr<compress_calibration>> open_calibration(const compress_arguments& a,
                                                                     const described_checkpoint& from);

}  // namespace troupe::apps
