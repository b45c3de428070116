// Owns the matrices and norms that an update needs whole: the ranks that exchange them, and the offsets of the shares
// of a tensor group. Pure functions of the layout. Which sets there are, and which rank orthogonalises which matrix, is
// decided in sets.hpp.
#pragma once

#include <cstdint>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Number of ranks of one pipeline coordinate and one replica. The matrices that these ranks hold, or hold shares of,
/// are distributed over them to be orthogonalised.
uint32_t matrix_ranks(const job_layout& l);

/// True if `rank` orthogonalises `parameter`. Without tensor groups one rank of each replica does; with tensor groups
/// one rank of the first replica does, for all replicas.
bool makes_orthogonal(const job_layout& l, uint32_t rank, uint32_t parameter);

/// True if the directions of a matrix set must be collected, because no rank has all elements.
bool collects_matrices(const job_layout& l);

/// True if ranks exchange the square sums of parameters and update directions: some update needs the norms of whole
/// parameters, and no rank has all elements.
bool measures_norms(const job_layout& l);

/// Returns the communicator that collects and spreads the matrices of a pipeline coordinate.
uint32_t matrix_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica);

/// Number of shares that make up a matrix; 1 if every rank of a tensor group has the whole matrix.
uint32_t shares_of(const job_layout& l, uint32_t parameter);

/// Returns the offset, in elements, of the share of `parameter` of tensor coordinate `tensor` in the slot of a matrix
/// set. The slot has the shares of all matrices of coordinate 0, then all shares of coordinate 1, and so on.
uint64_t matrix_place(const job_layout& l, const parameter_set& set, uint32_t parameter, uint32_t tensor);

/// Returns the number of elements of the slot for a matrix set, gaps included.
uint64_t matrix_slot_elements(const job_layout& l, const parameter_set& set);
/// Returns the number of elements of the matrices in the slot for a matrix set, without gaps.
uint64_t matrix_elements(const job_layout& l, const parameter_set& set);

/// Shape of a parameter's whole matrix, of which each rank of a tensor group may hold only a share.
struct matrix_shape {
  uint64_t rows = 0, columns = 0;
};
matrix_shape whole_shape(const job_layout& l, uint32_t parameter);
matrix_shape whole_shape(const core::model_table& table, const plan_options& options, uint32_t parameter);

/// Returns the flops that make a matrix of this shape orthogonal.
double orthogonalise_flops(matrix_shape shape);

}  // namespace troupe::plan
