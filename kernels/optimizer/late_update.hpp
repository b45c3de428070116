// ZenFlow's split of a matrix: the columns with the largest gradients are updated now, the others' gradients are summed
// and applied later. Owns the choice and both passes over a slice; when to choose and when to apply is the caller's.
// Source: ZenFlow (DeepSpeed, `runtime/zenflow`); where it differs see docs/numerics.md, "Late updates".
#pragma once

#include <span>

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// A run of elements of a row-major matrix: `first` is where it begins, in elements from the matrix's start.
struct matrix_slice {
  uint64_t first = 0, columns = 1;
};

/// Adds |g| of every element to its column's sum, in the order of elements. `sums` has an entry per column.
void add_column_sums(const optimizer_piece<float>& piece, const matrix_slice& slice, std::span<double> sums);
void add_column_sums(const optimizer_piece<double>& piece, const matrix_slice& slice, std::span<double> sums);

/// How many of `columns` are selected: `share` of them, rounded down, at least one.
uint64_t num_selected(uint64_t columns, double share);

/// selected[c] = 1 for the `count` columns with the largest sums, of equal ones the first; 0 for the others.
void select_columns(std::span<const double> sums, uint64_t count, std::span<uint8_t> selected);

/// `update` (optimizer.hpp) of the elements in selected columns. Of the others, deferred += g * step.gradient_scale, in
/// the type of the states; `deferred` lies as the piece does.
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred);
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred);

/// `update` of the elements in the other columns with the mean of the `gradients` that `deferred` is the sum of; then
/// it is zero. The piece's gradient and the step's factor are not read.
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred, uint64_t gradients);
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred,
                     uint64_t gradients);

}  // namespace troupe::kernels
