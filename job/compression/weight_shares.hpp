// What tensor ranks have of a compressed matrix: for each of them where the elements of its share lie in the groups of
// the whole matrix. Owns this choice; the arithmetic is kernels/compress/compressed_share.hpp's.
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

/// [tensor coordinate]. `whole`: the recipe of the whole matrix, which is `info`; `local`: a share as it lies in
/// memory. `ternary`: it has groups of 2 bits, now or before its bits are the recipe's.
std::vector<kernels::matrix_share> shares_of(const kernels::weight_recipe& whole, const core::parameter_info& info,
                                             const core::parameter_info& local, const core::parameter_cut& cut,
                                             uint32_t degree, bool ternary);

/// Entries that ranks tell each other, of all groups of the matrix where one has parts of any; else none.
uint64_t agreed_ranges(const std::vector<kernels::matrix_share>& shares);

/// [tensor coordinate] of a pruned module; none where its weight and its bias are whole on every rank.
std::vector<pruned_share> shares_of(const pruned_module& m, const chosen_tensor& tensor);

}  // namespace troupe::job
