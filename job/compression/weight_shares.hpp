// Computes the shares of tensor ranks in a compressed matrix: for each rank, the positions of its elements in the
// groups of the whole matrix. Owns this choice; kernels/compress/compressed_share.hpp does the arithmetic.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "job/compression/pruning.hpp"
#include "job/tensor/tensor.hpp"
#include "kernels/compress/compressed_share.hpp"

namespace troupe::job {

/// Returns the share of each tensor rank in a compressed matrix, indexed by tensor coordinate. `whole` is the recipe of
/// the whole matrix, `info` its parameter, and `local` the parameter of one rank. `ternary`: the matrix has groups of 2
/// bits, now or before its bits reach those of the recipe.
std::vector<kernels::matrix_share> shares_of(const kernels::weight_recipe& whole, const core::parameter_info& info,
                                             const core::parameter_info& local, const core::parameter_cut& cut,
                                             uint32_t degree, bool ternary);

/// Returns the number of value ranges that tensor ranks exchange: one for each group of the matrix if some rank has
/// only a part of a group, else 0.
uint64_t agreed_ranges(const std::vector<kernels::matrix_share>& shares);

/// Returns the share of each tensor coordinate in a pruned module; empty if its weight and its bias are whole on every
/// rank.
std::vector<pruned_share> shares_of(const pruned_module& m, const chosen_tensor& tensor);

}  // namespace troupe::job
