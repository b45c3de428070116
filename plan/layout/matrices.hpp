// Owns the matrices and norms that an update needs whole: the ranks that exchange them, and the offsets of the parts of
// a matrix that the ranks of a tensor group hold. Pure functions of the layout. Which sets there are, and which rank
// orthogonalises which matrix, is decided in sets.hpp.
#pragma once

#include <cstdint>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Number of ranks, over all tensor coordinates of one pipeline coordinate, that together hold one copy of the
/// states. The matrices that these ranks hold, whole or in parts, are distributed over them to be orthogonalised.
uint32_t matrix_ranks(const job_layout& l);

/// True if `rank` orthogonalises `parameter`. Without tensor groups, one of the ranks that together hold a copy of the
/// states does so, for each copy; with tensor groups, one of the ranks that hold the first copy does so for all copies.
bool makes_orthogonal(const job_layout& l, uint32_t rank, uint32_t parameter);

/// True if the update directions of a matrix set must be collected from all ranks, because no rank has all elements.
bool collects_matrices(const job_layout& l);

/// True if ranks exchange the square sums of parameters and update directions: some update needs the norms of whole
/// parameters, and no rank has all elements.
bool measures_norms(const job_layout& l);

/// Returns the communicator that collects and spreads the matrices of pipeline coordinate `pipeline`: all its ranks if
/// there are tensor groups, else the ranks that together hold copy number `replica` of the states.
uint32_t matrix_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica);

/// Returns the number of tensor-parallel ranks over which the matrix is split; 1 if each of them has the whole matrix.
uint32_t shares_of(const job_layout& l, uint32_t parameter);

/// Returns the offset, in elements, in the slot of a matrix set, of the part of `parameter` that the rank with tensor
/// coordinate `tensor` holds. The slot has the parts of all matrices that coordinate 0 holds, then the parts that
/// coordinate 1 holds, and so on.
uint64_t matrix_place(const job_layout& l, const parameter_set& set, uint32_t parameter, uint32_t tensor);

/// Returns the number of elements of the slot for a matrix set, gaps included.
uint64_t matrix_slot_elements(const job_layout& l, const parameter_set& set);
/// Returns the number of elements of the matrices in the slot for a matrix set, without gaps.
uint64_t matrix_elements(const job_layout& l, const parameter_set& set);

/// Shape of a parameter's whole matrix, of which each rank of a tensor group may hold only a part.
struct matrix_shape {
  uint64_t rows = 0, columns = 0;
};
matrix_shape whole_shape(const job_layout& l, uint32_t parameter);
matrix_shape whole_shape(const core::model_table& table, const plan_options& options, uint32_t parameter);

/// Returns the flops of orthogonalising a matrix of this shape.
double orthogonalise_flops(matrix_shape shape);

}  // namespace troupe::plan
