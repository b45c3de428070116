// Selects, from a tensor with all columns (token positions) of a sample, the columns that one rank of a sequence group
// has.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/sequence_columns.hpp"

namespace troupe::models {

/// Returns the columns `own` of `all` along `dimension`, each index increased by `shift`. The result is a view if the
/// columns are contiguous.
at::Tensor columns_of(const at::Tensor& all, int64_t dimension, const core::column_set& own, int64_t shift = 0);

}  // namespace troupe::models
