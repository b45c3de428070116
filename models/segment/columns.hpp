// Selects columns of a tensor that has all columns of a sample, as ranks of a sequence group have them.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/sequence_columns.hpp"

namespace troupe::models {

/// Returns the columns `own` along `dimension`, each moved by `shift`. A view if they are contiguous.
at::Tensor columns_of(const at::Tensor& all, int64_t dimension, const core::column_set& own, int64_t shift = 0);

}  // namespace troupe::models
