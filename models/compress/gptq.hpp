// GPTQ: the columns of a weight are rounded one after the other, and what each loses is made up for by those behind it,
// as far as the inputs that were seen allow. Plain functions on one matrix; which matrix, and what its bytes are, is
// others' business. Source: Frantar et al. 2022 (arXiv:2210.17323), algorithm 1, with the group order of "act order".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "core/error.hpp"

namespace troupe::models {

struct gptq_options {
  /// Of the mean of the diagonal of the inputs' products, added to it.
  double damping = 0.01;
  /// Groups, and columns within a group, whose inputs are largest come first. Columns stay in their groups.
  bool act_order = true;
  /// Besides a group's own grid, those for its values times 1 - i / 40 are tried, i up to this; 0: none.
  int narrower_grids = 14;
};

/// Codes of a matrix, and what they mean.
struct gptq_codes {
  std::vector<checkpoint::affine_grid> grids;  ///< of each row's groups
  std::vector<int16_t> q;                      ///< (out, in)
  at::Tensor values;                           ///< (out, in), fp32
};

/// `w` (out, in), fp32; `products` (in, in), fp32, is the sum of x xᵀ. `form` has grids (group() > 0). A column that
/// was always 0 is rounded to nearest. Refused: what form.fit() refuses; products that no damping makes positive
/// (numeric).
core::result<gptq_codes> gptq(const at::Tensor& w, const at::Tensor& products, const checkpoint::stored_form& form,
                              const gptq_options& options = {});

}  // namespace troupe::models
