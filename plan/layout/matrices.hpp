// Matrices and norms that an update wants whole: who meets over them, and where the shares of a tensor group lie side
// by side. Pure functions of the layout; which sets there are and who makes which matrix orthogonal is sets.hpp's.
#pragma once

#include <cstdint>

#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Ranks of one pipeline coordinate and one replica: the matrices that they hold, or hold shares of, are dealt to them.
uint32_t matrix_ranks(const job_layout& l);

/// Whether `rank` makes `parameter` orthogonal. Without tensor groups a rank of each replica does, else one of the
/// first replica for all.
bool makes_orthogonal(const job_layout& l, uint32_t rank, uint32_t parameter);

/// The directions of a matrix set have to be brought together: no rank has all elements.
bool collects_matrices(const job_layout& l);

/// Ranks tell each other the square sums of parameters and update directions: some update needs those of whole
/// parameters, and no rank has all elements.
bool measures_norms(const job_layout& l);

/// Where the ranks meet that collect and spread the matrices of a pipeline coordinate.
uint32_t matrix_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica);

/// Shares that make up a matrix; 1 where the ranks of a tensor group have all of it.
uint32_t shares_of(const job_layout& l, uint32_t parameter);

/// Where the share of tensor coordinate `tensor` starts in the slot of a matrix set, in elements: all shares of a
/// coordinate lie behind those of the one before it.
uint64_t matrix_place(const job_layout& l, const parameter_set& set, uint32_t parameter, uint32_t tensor);

/// Elements of that slot, with gaps, and of the matrices in it.
uint64_t matrix_slot_elements(const job_layout& l, const parameter_set& set);
uint64_t matrix_elements(const job_layout& l, const parameter_set& set);

/// Of a parameter's whole matrix, which no rank of a tensor group need have.
struct matrix_shape {
  uint64_t rows = 0, columns = 0;
};
matrix_shape whole_shape(const job_layout& l, uint32_t parameter);

}  // namespace troupe::plan
