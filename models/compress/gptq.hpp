// GPTQ: rounds the input columns of a weight one after another, and changes the columns after each one so that they
// compensate its error for the recorded inputs. Plain functions on one matrix; leaves the choice of the matrix and the
// packing of its bytes to callers. Source: Frantar et al. 2022 (arXiv:2210.17323), algorithm 1, with the group order of
// "act order".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "core/error.hpp"

namespace troupe::models {

struct gptq_options {
  /// Damping added to the diagonal of the inputs' products, as a fraction of the mean of that diagonal.
  double damping = 0.01;
  /// True: groups are rounded in descending order of the size of their inputs, and so are the columns within a group.
  /// False: in the order of columns.
  bool act_order = true;
  /// Number of narrower grids that are tried for each group besides the grid that covers its values: the grids that
  /// cover the values times 1 - i / 40, for i from 1 to this number; 0: none.
  int narrower_grids = 14;
};

/// The codes of a quantised matrix, and the grids that turn codes into values.
struct gptq_codes {
  std::vector<checkpoint::affine_grid> grids;  ///< quantisation grids, row by row: one for each group of a row
  std::vector<int16_t> q;                      ///< codes of the weight, (out, in)
  at::Tensor values;                           ///< values that the codes represent, (out, in), fp32
};

/// Rounds the fp32 weight `w` (out, in). `products` (in, in), fp32, is the sum of x xᵀ over the recorded inputs x.
/// `form` is the format to round for, which must have grids (group() > 0). A column whose inputs were always 0 is
/// rounded to nearest. Errors: those of form.fit(), and products that no damping makes positive definite (numeric).
core::result<gptq_codes> gptq(const at::Tensor& w, const at::Tensor& products, const checkpoint::stored_form& form,
                              const gptq_options& options = {});

}  // namespace troupe::models
