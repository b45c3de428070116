// Computes the shares of tensor ranks in a compressed matrix: for each rank, the positions of its elements in the
// groups of the whole matrix. Owns this choice; kernels/compress/compressed_share.hpp does the arithmetic.
#pragma once

#include <vector>

#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "job/compression/pruning.hpp"
#include "job/tensor/tensor.hpp"
#include "kernels/compress/compressed_share.hpp"

namespace troupe::job {

/// Returns the part of a compressed matrix that each tensor-parallel rank stores, indexed by tensor coordinate. `whole`
/// is the recipe of the whole matrix, `info` its parameter, and `local` the parameter of one rank. `ternary`: the
/// matrix has groups of 2 bits, now or before its bits reach those of the recipe.
std::vector<kernels::matrix_share> shares_of(const kernels::weight_recipe& whole, const core::parameter_info& info,
                                             const core::parameter_info& local, const core::parameter_cut& cut,
                                             uint32_t degree, bool ternary);

/// Returns the number of value ranges that tensor ranks exchange: one for each group of the matrix if some rank has
/// only a part of a group, else 0.
uint64_t agreed_ranges(const std::vector<kernels::matrix_share>& shares);

/// Returns, by tensor coordinate, the elements of a pruned module's weight and bias that the rank stores; empty if
/// every rank stores all of them.
std::vector<pruned_share> shares_of(const pruned_module& m, const chosen_tensor& tensor);

}  // namespace troupe::job
