// ZenFlow's split of a matrix: columns with the largest gradients are updated in every step, and the gradients of the
// other columns are summed for a later update. Owns the choice of columns and both updates of a slice; the caller
// decides when columns are chosen and when deferred gradients are applied. Source: ZenFlow (DeepSpeed,
// `runtime/zenflow`); docs/numerics.md, "Late updates", lists the differences.
#pragma once

#include <span>

#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Consecutive elements of a row-major matrix that a piece contains; `first` is the index of the first of them in the
/// matrix.
struct matrix_slice {
  uint64_t first = 0, columns = 1;
};

/// Adds the magnitude of every element's gradient to the sum of its matrix column, in the order of elements. `sums` has
/// one number per column.
void add_column_sums(const optimizer_piece<float>& piece, const matrix_slice& slice, std::span<double> sums);
void add_column_sums(const optimizer_piece<double>& piece, const matrix_slice& slice, std::span<double> sums);

/// Returns how many of `columns` matrix columns are updated in every step: the fraction `share` of them, rounded down,
/// but at least one.
uint64_t num_selected(uint64_t columns, double share);

/// Sets selected[c] to 1 for the `count` columns with the largest sums, and to 0 for all other columns; among equal
/// sums, the first columns are selected.
void select_columns(std::span<const double> sums, uint64_t count, std::span<uint8_t> selected);

/// Updates the elements in selected columns now, by update() of optimizer.hpp. For all other elements, adds the
/// gradient times step.gradient_scale to `deferred`, which has one number of the states' type per element of the piece.
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred);
void update_selected(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred);

/// Updates the elements in columns that are not selected, by update() of optimizer.hpp, with the mean of their
/// deferred gradients: `deferred` is the sum of these gradients, `gradients` their number. Then sets `deferred` to
/// zero. Reads neither the piece's gradient nor step.gradient_scale.
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, float* deferred, uint64_t gradients);
void update_deferred(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const matrix_slice& slice, std::span<const uint8_t> selected, double* deferred,
                     uint64_t gradients);

}  // namespace troupe::kernels
