// Provides sample models as tables, and plans of all their ranks, for tests of plans.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plan/generate/generate.hpp"
#include "plan/layout/sets.hpp"

namespace troupe::plan {

using shared_table = std::shared_ptr<const core::model_table>;
using shared_plans = std::vector<std::shared_ptr<const rank_plan>>;

/// Builds a model table: parameters by size, units by segments.
class table_writer {
 public:
  uint32_t parameter(uint64_t numel) {
    table_.parameters.push_back({numbered("p", table_.parameters.size()), {static_cast<int64_t>(numel)}});
    return static_cast<uint32_t>(table_.parameters.size() - 1);
  }
  /// Adds a unit with one segment for each list of parameters.
  void unit(const std::vector<std::vector<uint32_t>>& segments) {
    core::unit_info u;
    u.name = numbered("unit ", table_.units.size());
    for (const auto& s : segments) {
      u.segments.push_back({numbered("segment ", u.segments.size()), s, 1e6, 4096, 2048, 1e6});
      u.parameters.insert(u.parameters.end(), s.begin(), s.end());
    }
    table_.units.push_back(std::move(u));
  }
  /// Sets random sizes, in bytes, of the hidden states between units.
  void random_inputs(std::mt19937_64& random) {
    for (size_t u = 1; u < table_.units.size(); ++u) table_.units[u].input_bytes = 1 + random() % 9000;
  }
  /// Freezes each parameter with a probability of 1 / `out_of`.
  void freeze_some(std::mt19937_64& random, uint64_t out_of) {
    for (auto& p : table_.parameters) p.trainable = random() % out_of != 0;
  }
  void freeze(std::initializer_list<size_t> which) {
    for (size_t q : which) table_.parameters[q].trainable = false;
  }
  shared_table done() { return std::make_shared<const core::model_table>(std::move(table_)); }

 private:
  static std::string numbered(const char* what, size_t n) { return std::string(what).append(fmt::to_string(n)); }

  core::model_table table_;
};

/// Returns a model in which each parameter has a unit of one segment to itself.
inline shared_table chain_table(const std::vector<uint64_t>& numels) {
  table_writer w;
  for (uint64_t n : numels) w.unit({{w.parameter(n)}});
  return w.done();
}

/// Returns a model with the structure of a GPT: embedding, blocks of two segments, head. If `tied` is true, the head
/// also uses the first parameter.
inline shared_table gpt_table(uint32_t layers, uint64_t width, uint64_t vocabulary, bool tied) {
  table_writer w;
  const uint32_t tokens = w.parameter(vocabulary * width);
  w.unit({{tokens, w.parameter(64 * width)}});
  for (uint32_t l = 0; l < layers; ++l) {
    std::vector<uint32_t> attention, mlp;
    for (uint64_t n : {width, width, 3 * width * width, 3 * width, width * width, width})
      attention.push_back(w.parameter(n));
    for (uint64_t n : {width, width, 4 * width * width, 4 * width, 4 * width * width, width})
      mlp.push_back(w.parameter(n));
    w.unit({attention, mlp});
  }
  std::vector<uint32_t> head = {w.parameter(width), w.parameter(width)};
  head.push_back(tied ? tokens : w.parameter(vocabulary * width));
  w.unit({head});
  return w.done();
}

/// Returns a random model: units of one or two segments, sizes around the block size of the partition, units without
/// parameters, one parameter that several units may share, some frozen parameters. `units_more` is the number of units
/// above the minimum of two.
inline shared_table random_table(std::mt19937_64& random, uint64_t units_more = 0) {
  table_writer w;
  const std::vector<uint64_t> sizes = {1, 40, 1000, 1024, 1025, 3000, 6000, 9216};
  const auto any = [&] { return sizes[random() % sizes.size()]; };
  const uint32_t shared = w.parameter(8192);
  const uint64_t units = 2 + random() % 4 + units_more;
  for (uint64_t u = 0; u < units; ++u) {
    std::vector<std::vector<uint32_t>> segments(1 + random() % 2);
    for (auto& s : segments)
      for (uint64_t n = random() % 4; n > 0; --n) s.push_back(w.parameter(any()));
    if (u == 0 || (u + 1 == units && random() % 2 == 0)) segments.front().push_back(shared);
    w.unit(segments);
  }
  if (random() % 2 == 0) w.freeze_some(random, 5);
  w.random_inputs(random);
  return w.done();
}

inline std::shared_ptr<const job_layout> layout_of(const shared_table& table, const plan_options& options) {
  auto made = make_layout(table, options);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
  return *made;
}

inline shared_plans plans_of(const std::shared_ptr<const job_layout>& layout) {
  shared_plans out;
  for (uint32_t r = 0; r < layout->options.ranks(); ++r) out.push_back(*generate(layout, r));
  return out;
}
inline shared_plans plans_of(const shared_table& table, const plan_options& options) {
  return plans_of(layout_of(table, options));
}

/// Returns pools of the sizes that one rank's plan needs.
inline pool_sizes pools_of(const rank_plan& p) {
  pool_sizes out;
  std::copy(std::begin(p.pool_bytes), std::end(p.pool_bytes), out.bytes);
  return out;
}

/// Returns options that exercise all instructions in a small model: tiny buckets, no persistent parameters, no unit
/// kept for reuse.
inline plan_options small_options(uint32_t ranks, uint32_t stage, uint32_t accumulation = 1) {
  plan_options o;
  o.mesh = troupe::core::data_mesh(ranks);
  o.stage = stage;
  o.accumulation = accumulation;
  o.gradients.sum_micro_first = stage <= 1;
  o.gradients.reduce_bucket = o.updates.allgather_bucket = o.updates.sub_group = 10'000;
  o.gathering.prefetch_bucket = 10'000;
  o.gathering.persistence_threshold = 0;
  o.gathering.max_reuse_distance = 0;
  return o;
}

/// Returns a mesh of `replicas` groups; the states are sharded over the `shards` ranks of each group.
inline core::mesh in_groups(uint32_t replicas, uint32_t shards) {
  return {{core::axis::replicate, replicas}, {core::axis::shard, shards}};
}
/// Puts the data ranks into two groups if their number is even.
inline void put_in_groups(plan_options& o) {
  if (o.data() % 2 == 0) o.mesh = in_groups(2, o.data() / 2);
}

/// Returns random update rules: one rule for all parameters, or one for each parameter.
inline std::vector<parameter_update> random_optimizer(const core::model_table& table, std::mt19937_64& random) {
  const auto any = [&] {
    return parameter_update{static_cast<uint32_t>(random() % (max_moments + 1)),
                            static_cast<update_need>(random() % 3)};
  };
  std::vector<parameter_update> out(table.parameters.size(), any());
  if (random() % 2 == 0)
    for (auto& x : out) x = any();
  return out;
}

inline tier_options random_tiers(const plan_options& o, std::mt19937_64& random) {
  tier_options t;
  const auto any = [&] { return static_cast<tier>(random() % num_tiers); };
  t.optimizer = any();
  if (o.stage == 3) t.parameters = any();
  t.swap_gradients = random() % 2 == 0;
  t.ratio = random() % 2 == 0 ? 1 : 0.5;
  t.state_slots = static_cast<uint32_t>(1 + random() % 3);
  t.read_ahead = random() % 2 == 0;
  t.write_behind = random() % 2 == 0;
  t.parameter_slots = static_cast<uint32_t>(1 + random() % 3);
  t.gradient_slots = static_cast<uint32_t>(1 + random() % 2);
  t.resident_parameters = random() % 2 == 0 ? 0 : 5000;
  t.checksums = random() % 2 == 0;
  t.activations = any();
  t.activation_units = random() % 2 == 0 ? 0xFFFFFFFF : static_cast<uint32_t>(random() % 3);
  t.activation_slots = static_cast<uint32_t>(1 + random() % 2);
  return t;
}

inline plan_options random_options(const core::model_table& table, std::mt19937_64& random) {
  const auto one_of = [&](std::initializer_list<uint64_t> all) { return *(all.begin() + random() % all.size()); };
  plan_options o;
  o.mode = static_cast<mode>(one_of({0, 0, 0, 0, 0, 1, 2, 3}));
  o.mesh = troupe::core::data_mesh(static_cast<uint32_t>(1 + random() % 4));
  o.stage = static_cast<uint32_t>(random() % 4);
  o.accumulation = static_cast<uint32_t>(one_of({1, 2, 3}));
  o.gradients.sum_micro_first = random() % 2 == 0;
  o.overlap = random() % 4 != 0;
  o.gradients.reduce_scatter = random() % 2 == 0;
  o.uneven = random() % 2 == 0 ? uneven_blocks::in_turn : uneven_blocks::to_least;
  o.recompute = random() % 2 == 0;
  o.gradients.reduce_bucket = one_of({1, 3000, 10'000, 500'000'000});
  o.updates.allgather_bucket = one_of({1, 3000, 500'000'000});
  o.updates.sub_group = one_of({1, 3000, 1'000'000'000});
  o.gathering.prefetch_bucket = one_of({0, 3000, 1'000'000'000});
  o.gathering.max_live = one_of({0, 20'000, 1'000'000'000});
  o.gathering.max_reuse_distance = one_of({0, 10'000, 1'000'000'000});
  o.gathering.persistence_threshold = one_of({0, 1024, 1'000'000});
  o.gathering.model_persistence_threshold = one_of({5000, 9223372036854775807ULL});
  o.types.parameter = static_cast<core::dtype>(
      one_of({static_cast<uint64_t>(core::dtype::f64), static_cast<uint64_t>(core::dtype::f32),
              static_cast<uint64_t>(core::dtype::bf16), static_cast<uint64_t>(core::dtype::f16)}));
  o.types.communication = o.types.parameter;
  o.types.accumulation = random() % 2 == 0 ? o.types.parameter : o.master();
  if (random() % 3 != 0) o.updates.rules = random_optimizer(table, random);
  if (o.stage > 0 && random() % 2 == 0) o.tiers = random_tiers(o, random);
  if (o.tiers.swaps())
    for (auto& x : o.updates.rules) x.need = update_need::elements;
  o.saving.on = o.mode == mode::save || (o.mode == mode::train && random() % 2 == 0);
  o.saving.staging_bytes = one_of({1, 40'000, 64'000'000});
  o.gradients.buckets_follow_units = random() % 2 == 0;
  return o;
}

/// Returns the number of instructions of kind `k`.
inline size_t count(const rank_plan& p, kind k) {
  return static_cast<size_t>(std::ranges::count(p.instructions, k, &instruction::kind));
}

}  // namespace troupe::plan
