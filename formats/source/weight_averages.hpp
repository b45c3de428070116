// Averages of weights (the optimizer state `ema`) in the place of the weights of a checkpoint. Owns which tensors stay.
#pragma once

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Returns the source with the average of every parameter that has one as its master weight, and without optimizer
/// states; all other tensors are unchanged. Refused: a source without averages, and one of whose trained parameters
/// some have none.
core::result<tensor_source> with_averages(tensor_source s);

}  // namespace troupe::formats
