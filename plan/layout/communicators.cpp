#include "plan/layout/communicators.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::plan {

std::vector<communicator> communicators_of(const plan_options& options) {
  const auto& mesh = options.mesh;
  const uint32_t stages = mesh.degree(core::axis::pipeline);
  std::vector<communicator> out;
  for (auto& members : mesh.groups(core::axis_set({core::axis::pipeline}).complement()))
    out.push_back({stages == 1 ? "data" : "data of stage " + std::to_string(out.size()), std::move(members)});
  if (stages == 1) return out;
  out.push_back({"all", mesh.group_of(0, core::all_axes)});
  for (uint32_t k = 0; k + 1 < stages; ++k)
    for (const uint32_t r : mesh.matching({{core::axis::pipeline, k}}))
      for (const char* what : {"activations", "gradients"})
        out.push_back({std::string(what) + " between ranks " + std::to_string(r) + " and " +
                           std::to_string(mesh.at_stage(r, k + 1)),
                       {r, mesh.at_stage(r, k + 1)}});
  return out;
}

uint32_t world_communicator(const job_layout& l) {
  const uint32_t stages = l.options.mesh.degree(core::axis::pipeline);
  return stages == 1 ? 0 : stages;
}

uint32_t communicator_of(const job_layout& l, uint32_t rank, const operation& x) {
  const uint32_t at = l.pipeline_at(rank);
  switch (x.kind) {
    case kind::vote:
    case kind::measure:
      return world_communicator(l);
    case kind::send:
    case kind::receive: {
      // The pair's first rank is in the earlier stage; a gradient goes back to it.
      const bool back = x.use == use::backward;
      const uint32_t earlier = at - ((x.kind == kind::receive) != back ? 1 : 0);
      const uint32_t columns = l.options.ranks() / l.options.mesh.degree(core::axis::pipeline);
      return world_communicator(l) + 1 + 2 * (earlier * columns + rank % columns) + (back ? 1 : 0);
    }
    default:
      return data_communicator(at);
  }
}

void add_collectives(std::vector<uint64_t>& met, rank_plans plans) {
  for (uint32_t c = 0; c < plans.front()->num_collectives.size(); ++c) {
    uint32_t most = 0;  // the same on all members, none on others
    for (const auto& p : plans) most = std::max(most, p->num_collectives[c]);
    if (met.size() <= c) met.push_back(0);
    met[c] += most;
  }
}

}  // namespace troupe::plan
