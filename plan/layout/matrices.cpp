#include "plan/layout/matrices.hpp"

#include <algorithm>

#include "plan/layout/communicators.hpp"
#include "plan/layout/layout.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan {

uint32_t matrix_ranks(const job_layout& l) { return l.options.shards() * l.options.mesh.tensor_ranks(); }

bool makes_orthogonal(const job_layout& l, uint32_t rank, uint32_t parameter) {
  if (!l.holds(rank, parameter) || (l.options.mesh.tensor_ranks() > 1 && l.options.replica_at(rank) > 0)) return false;
  return l.matrix_owner[parameter] ==
         l.options.shard_at(rank) * l.options.mesh.tensor_ranks() + l.options.mesh.tensor_at(rank);
}

bool collects_matrices(const job_layout& l) { return !l.options.updates_all() || l.options.mesh.tensor_ranks() > 1; }

bool measures_norms(const job_layout& l) { return measured_elements(l) > 0 && collects_matrices(l); }

uint32_t matrix_communicator(const job_layout& l, uint32_t pipeline, uint32_t replica) {
  return l.options.mesh.tensor_ranks() > 1 ? over_tensor_communicator(l, pipeline)
                                           : shard_communicator(l, pipeline, replica);
}

uint32_t shares_of(const job_layout& l, uint32_t parameter) {
  return l.is_cut(parameter) ? l.options.mesh.tensor_ranks() : 1;
}

uint64_t matrix_place(const job_layout& l, const parameter_set& set, uint32_t parameter, uint32_t tensor) {
  return offset_in(set, parameter) + (l.is_cut(parameter) ? tensor * set.elements : 0);
}

uint64_t matrix_slot_elements(const job_layout& l, const parameter_set& set) {
  const bool shared = std::ranges::any_of(set.parameters, [&](const placement& x) { return l.is_cut(x.parameter); });
  return set.elements * (shared ? l.options.mesh.tensor_ranks() : 1);
}

uint64_t matrix_elements(const job_layout& l, const parameter_set& set) {
  uint64_t out = 0;
  for (const auto& x : set.parameters) out += shares_of(l, x.parameter) * l.table->parameters[x.parameter].numel();
  return out;
}

matrix_shape whole_shape(const job_layout& l, uint32_t parameter) {
  return whole_shape(*l.table, l.options, parameter);
}

matrix_shape whole_shape(const core::model_table& table, const plan_options& options, uint32_t parameter) {
  const parameter_update update = options.update_of(parameter);
  if (update.rows > 0) return {update.rows, update.columns};
  const auto& local = table.parameters[parameter];
  const auto rows = static_cast<uint64_t>(local.shape.front());
  return {rows, local.numel() / rows};
}

// Newton-Schulz on a matrix with the sides `small` and `large`: each of 5 iterations has two matrix products of
// 2 small^2 large flops and one of 2 small^3.
double orthogonalise_flops(matrix_shape shape) {
  const double small = double(std::min(shape.rows, shape.columns)), large = double(std::max(shape.rows, shape.columns));
  return 5 * (4 * small * small * large + 2 * small * small * small);
}

}  // namespace troupe::plan
