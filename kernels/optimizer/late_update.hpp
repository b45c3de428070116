// ZenFlow's split of a matrix: updates the columns with the largest gradients now, and sums the other columns'
// gradients for a later update. Owns the choice of columns and both passes over a slice; the caller decides when to
// choose and when to apply. Source: ZenFlow (DeepSpeed, `runtime/zenflow`); docs/numerics.md, "Late updates", lists the
// differences.
#pragma once

#include <span>

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// A run of elements of a row-major matrix; `first` is the index of its first element in the matrix.
struct matrix_slice {
  uint64_t first = 0, columns = 1;
};

/// Adds |g| of every element to its column's sum, in the order of elements. `sums` has an entry per column.
void add_column_sums(const optimizer_piece<float>& piece, const matrix_slice& slice, std::span<double> sums);
void add_column_sums(const optimizer_piece<double>& piece, const matrix_slice& slice, std::span<double> sums);

/// Returns how many of `columns` are selected: `share` of them, rounded down, at least one.
uint64_t num_selected(uint64_t columns, double share);

/// Sets selected[c] = 1 for the `count` columns with the largest sums, among equal ones the first; 0 for the others.
void select_columns(std::span<const double> sums, uint64_t count, std::span<uint8_t> selected);

/// Calls `update` (optimizer.hpp) for the elements in selected columns. For the others, adds deferred += g *
/// step.gradient_scale, in the type of the states; `deferred` is laid out as the piece is.
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred);
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred);

/// Calls `update` for the elements in columns that are not selected, with the mean of the `gradients` gradients that
/// `deferred` is the sum of; then sets `deferred` to zero. Does not read the piece's gradient and the step's factor.
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred, uint64_t gradients);
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred,
                     uint64_t gradients);

}  // namespace troupe::kernels
