// Some columns of a tensor that has all columns of a sample, as ranks of a sequence group have them.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/sequence_columns.hpp"

namespace troupe::models {

/// Those of `own` along `dimension`, each `shift` further on. A view where they lie side by side.
at::Tensor columns_of(const at::Tensor& all, int64_t dimension, const core::column_set& own, int64_t shift = 0);

}  // namespace troupe::models
