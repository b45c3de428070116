// What tensor ranks have of a compressed matrix: for each of them where the elements of its share lie in the groups of
// the whole matrix. Owns this choice and its refusal; the arithmetic is kernels/compress/compressed_share.hpp's.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "kernels/compress/compressed_share.hpp"

namespace troupe::job {

/// [tensor coordinate]. `whole`: the recipe of the whole matrix, which is `info`; `local`: a share as it lies in
/// memory. Refused (bad_input): groups that ranks share, of a quantiser that sums them up.
core::result<std::vector<kernels::matrix_share>> shares_of(const kernels::weight_recipe& whole,
                                                           const core::parameter_info& info,
                                                           const core::parameter_info& local,
                                                           const core::parameter_cut& cut, uint32_t degree);

/// Groups whose ranges ranks tell each other: all of the matrix where one has parts of any; else none.
uint64_t agreed_ranges(const std::vector<kernels::matrix_share>& shares);

}  // namespace troupe::job
