#include "job/feasible_degree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "plan/action.hpp"

namespace troupe::job {
namespace {

std::string text_of(uint64_t n) { return fmt::to_string(n); }

tl::unexpected<core::error> refused(const std::string& key, const std::string& wanted, uint64_t got) {
  return core::fail(error_kind::bad_input, key + ": wanted " + wanted + ", got " + text_of(got));
}

/// Returns the degrees of the ranks that together hold one copy of the model, as text: "pipeline 2 x tensor 2"; "1
/// rank" if one rank holds the whole model.
std::string replica_text(const config::parallel_section& p) {
  std::string out;
  for (const auto& [axis, degree] : {std::pair("pipeline", p.pipeline), std::pair("sequence", p.sequence),
                                     std::pair("context", p.context), std::pair("tensor", p.tensor)})
    if (degree > 1) out += std::string(out.empty() ? "" : " x ") + axis + " " + text_of(degree);
  return out.empty() ? "1 rank" : out;
}

core::result<void> check_groups(const config::job_config& c, uint32_t data) {
  const auto& z = c.zero_optimization;
  if (c.parallel.shard > 0 && data % c.parallel.shard != 0)
    return refused("parallel.shard", "a divisor of " + text_of(data) + " data ranks", c.parallel.shard);
  const uint64_t cut_over = c.parallel.shard > 0 ? c.parallel.shard : data;
  if (z.stage == 3 && z.zero_hpz_partition_size > 1 && cut_over % z.zero_hpz_partition_size != 0)
    return refused("zero_optimization.zero_hpz_partition_size",
                   "a divisor of the " + text_of(cut_over) + " ranks that parameters are sharded over",
                   z.zero_hpz_partition_size);
  return {};
}

core::result<cut_batch> elastic_cut(const config::job_config& c, uint32_t data) {
  const auto batch = config::elastic_batch_at(c.elasticity, data);
  if (!batch) return core::fail(error_kind::bad_input, batch.error().key + ": " + batch.error().text);
  if (batch->train != c.train_batch_size)
    return refused("elasticity",
                   "the job's batch of " + text_of(c.train_batch_size) + " samples at " + text_of(data) + " data ranks",
                   batch->train);
  return cut_batch{batch->micro, batch->train / data / batch->micro};
}

}  // namespace

core::result<cut_batch> batch_at_degree(const config::job_config& c, uint32_t data) {
  if (data == 0) return refused("parallel.data", "one data rank at least", 0);
  TROUPE_TRY(check_groups(c, data));
  auto cut = c.elasticity.enabled ? elastic_cut(c, data)
                                  : cut_batch_for(c.train_batch_size, c.train_micro_batch_size_per_gpu, data);
  if (cut && c.pipeline.cuts(c.parallel.pipeline) && cut->accumulation > plan::max_stage_micro_batches)
    return refused("gradient_accumulation_steps",
                   "at most " + text_of(plan::max_stage_micro_batches) + " micro-batches of a pipeline",
                   cut->accumulation);
  return cut;
}

core::result<uint32_t> greatest_feasible(const config::job_config& c, uint32_t ranks_left) {
  assert(c.open_degrees.empty());
  const auto lost = [](std::string text) { return core::fail(error_kind::peer_lost, std::move(text)); };
  const uint32_t replica = ranks_of_replica(c.parallel), most = std::min(ranks_left / replica, c.parallel.data);
  if (most == 0)
    return lost("parallel: wanted the " + text_of(replica) + (replica == 1 ? " rank" : " ranks") +
                " of one whole replica (" + replica_text(c.parallel) + "), got " + text_of(ranks_left) + " left");
  std::optional<core::error> first;
  for (uint32_t data = most; data > 0; --data) {
    const auto cut = batch_at_degree(c, data);
    if (!cut && !first) first = cut.error();
    if (!cut) continue;
    if (const uint64_t ranks = uint64_t{data} * replica; ranks < c.cluster.min_ranks)
      return lost("cluster.min_ranks: wanted at least " + text_of(c.cluster.min_ranks) +
                  " ranks to continue with, got " + text_of(ranks) + " (" + text_of(data) +
                  (data == 1 ? " replica" : " replicas") + " of " + text_of(replica) +
                  (replica == 1 ? " rank" : " ranks") + ") of " + text_of(ranks_left) + " left");
    return data;
  }
  return lost("parallel.data: wanted a possible degree of at most " + text_of(most) +
              ", the replicas that are left, got none; at " + text_of(most) + ": " + first->text);
}

config::job_config at_degree(const config::job_config& c, uint32_t data) {
  assert(c.open_degrees.empty());
  const auto cut = batch_at_degree(c, data);
  assert(cut.has_value());
  config::job_config out = c;
  out.parallel.data = data;
  if (out.parallel.all) out.parallel.all = out.parallel.ranks();
  out.train_micro_batch_size_per_gpu = cut->rows;
  out.gradient_accumulation_steps = cut->accumulation;
  return out;
}

}  // namespace troupe::job
