// Checks properties of prices that hold for every configuration: on random workloads of every stack.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <random>

#include "hardware/catalogue.hpp"
#include "hardware/collective_cost.hpp"
#include "hardware/memory_cost.hpp"
#include "hardware/price.hpp"
#include "hardware/step_cost.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(cost_properties)

using namespace troupe;
using namespace troupe::hardware;
using namespace troupe::tests;

namespace {

/// Draws workloads whose sizes and degrees fit together.
class workload_source {
 public:
  workload draw() {
    workload w;
    w.tensor = pick({1, 2, 4, 8});
    w.pipeline = pick({1, 2, 3, 4, 8});
    w.data = pick({1, 2, 4, 8, 32});
    w.context = pick({1, 1, 1, 2});
    w.heads = w.tensor * pick({1, 2, 4, 7});
    w.kv_heads = pick({1, 0}) > 0 ? w.heads : w.tensor;
    w.hidden = w.heads * pick({64, 128});
    w.gated = pick({0, 1}) > 0;
    w.ffn = w.gated ? 3 * w.hidden : 4 * w.hidden;
    w.layers = w.pipeline * pick({1, 2, 6});
    w.sequence = pick({512, 2048, 4096});
    w.vocabulary = 51200;
    w.chunks = w.pipeline > 1 ? pick({1, 2}) : 1;
    w.micro_batch = pick({1, 2, 8});
    w.micro_batches = pick({1, 4, 16});
    w.zero = static_cast<int>(pick({0, 1, 2, 3}));
    w.recompute = pick({0, 1}) > 0;
    w.selective = pick({0, 1}) > 0;
    w.early_stop = pick({0, 1}) > 0;
    w.fused_attention = pick({0, 1}) > 0;
    w.causal_skip = w.fused_attention;
    w.sequence_parallel = pick({0, 1}) > 0;
    w.untied = pick({0, 1}) > 0;
    return w;
  }

 private:
  double pick(std::initializer_list<double> from) {
    return from.begin()[std::uniform_int_distribution<size_t>(0, from.size() - 1)(random_)];
  }
  std::mt19937_64 random_{48};
};

/// Calls f(stack, model, workload) for random workloads that each stack's model of `q` can price.
void for_workloads(quantity q, auto f) {
  const auto stacks = check_ok(embedded_stacks());
  workload_source source;
  size_t priced = 0;
  for (const auto& by : *stacks) {
    const auto* const model = by.find(q);
    if (model == nullptr) continue;
    for (int i = 0; i < 200; ++i) {
      const auto w = source.draw();
      if (!needs_of(q, w, by.on, model->values)) continue;
      ++priced;
      f(by, *model, w);
    }
  }
  BOOST_TEST(priced > 300U);
}

}  // namespace

BOOST_AUTO_TEST_CASE(parts_add_up_to_the_step_and_to_the_peak_exactly) {
  for (const auto q : {quantity::step, quantity::memory})
    for_workloads(q, [&](const stack& by, const quantity_model& model, const workload& w) {
      double sum = 0;
      for (const auto& part : parts_of(q, w, by.on, model.values)) {
        sum += part.value;
        BOOST_TEST(part.value >= -1e-9 * sum, by.name << " " << part.name << " " << part.value);
      }
      const double whole = price_of(q, w, by.on, model.values);
      BOOST_TEST((std::isfinite(whole) && whole > 0));
      BOOST_TEST(sum == whole);
    });
}

BOOST_AUTO_TEST_CASE(the_parts_of_a_step_are_its_flow_its_exchange_and_its_update) {
  for_workloads(quantity::step, [&](const stack& by, const quantity_model& model, const workload& w) {
    const auto c = cost_of_step(w, by.on, model.values);
    const double whole = c.flow_s + c.reduce_s + c.update_s + c.straggler_s;
    BOOST_TEST(std::abs(whole / c.step_s - 1) < 1e-12, by.name);
  });
}

BOOST_AUTO_TEST_CASE(a_faster_card_or_link_is_never_slower) {
  for_workloads(quantity::step, [&](const stack& by, const quantity_model& model, const workload& w) {
    // The host's time is divided over forward and backward by their device times. If a ring of keys and values shrinks
    // in one of them while gathers run beneath both, the step may grow by less than this share.
    const double slack = w.context > 1 && w.zero >= 2 ? 1e-3 : 1e-12;
    const double before = cost_of_step(w, by.on, model.values).step_s;
    for (const auto& row : card_rows()) {
      if (row.field == &card::sms || row.field == &card::node_gpus) continue;
      card faster = by.on;
      faster.*row.field *= 2;
      const double after = cost_of_step(w, faster, model.values).step_s;
      BOOST_TEST(after <= before * (1 + slack), by.name << " " << row.name << " " << before << " " << after);
    }
  });
}

BOOST_AUTO_TEST_CASE(more_work_takes_longer_and_needs_more_memory) {
  for (const auto q : {quantity::step, quantity::memory})
    for_workloads(q, [&](const stack& by, const quantity_model& model, const workload& w) {
      const double before = price_of(q, w, by.on, model.values);
      auto deeper = w, longer = w, wider = w;
      deeper.layers += w.pipeline;
      longer.micro_batch *= 2;
      wider.vocabulary *= 2;
      for (const auto& more : {deeper, longer, wider})
        BOOST_TEST(price_of(q, more, by.on, model.values) >= before, by.name);
    });
}

BOOST_AUTO_TEST_CASE(a_collective_is_never_faster_than_its_bytes_over_the_slowest_link) {
  const auto stacks = check_ok(choose_stacks({"megatron_a100", "fsdp_h100", "nccl_a100"}, ""));
  const auto& c = (*stacks)[0].find(quantity::step)->values;
  const auto& sharded = (*stacks)[1].find(quantity::step)->values;
  const auto& ring = (*stacks)[2].find(quantity::all_reduce)->values;
  const auto& on = (*stacks)[0].on;
  for (const double ranks : {2, 4, 8, 16, 64, 512})
    for (const double bytes : {1e3, 1e6, 1e9}) {
      const rank_group group{ranks, std::min(ranks, 8.0)};
      const double wire_bytes = 2 * (ranks - 1) / ranks * bytes;
      const double inside_s = 2 * (group.inside - 1) / group.inside * bytes / on.nvlink_bytes_per_s;
      const double far_bytes = ranks > 8 ? 2 * (ranks / 8 - 1) / (ranks / 8) * bytes / 8 : 0;
      BOOST_TEST(two_level_all_reduce_s(bytes, group, on, c) >= inside_s + far_bytes / on.network_bytes_per_s);
      BOOST_TEST(ring_gather_s(bytes, group, on, sharded) >= wire_bytes / 2 / on.nvlink_bytes_per_s);
      if (ranks <= 8) BOOST_TEST(ring_all_reduce_s(bytes, ranks, ring) >= wire_bytes / ring.ring_bytes_per_s);
    }
  BOOST_TEST(two_level_all_reduce_s(1e9, {1, 1}, on, c) == 0);
  BOOST_TEST(ring_all_reduce_s(1e9, 1, ring) == 0);
  BOOST_TEST(ring_gather_s(1e9, {1, 1}, on, sharded) == 0);
}

BOOST_AUTO_TEST_CASE(the_constants_that_matter_most_are_named_in_order) {
  for_workloads(quantity::step, [&](const stack& by, const quantity_model& model, const workload& w) {
    const auto most = influences_of(quantity::step, w, by.on, model.values, named_influences);
    BOOST_TEST(most.size() == 3U);
    for (size_t i = 1; i < most.size(); ++i) BOOST_TEST(std::abs(most[i - 1].percent) >= std::abs(most[i].percent));
    for (const auto& one : most) BOOST_TEST(find_constant(one.constant) != nullptr, one.constant);
  });
}

BOOST_AUTO_TEST_CASE(a_workload_is_refused_by_the_name_of_the_constant_that_it_needs) {
  const auto stacks = check_ok(choose_stacks({"megatron_a100", "megatron_v100", "megatron_b200"}, ""));
  workload w;
  w.hidden = 1024, w.ffn = 4096, w.heads = w.kv_heads = 16, w.layers = 4, w.sequence = 1024, w.vocabulary = 51200;
  w.data = 16;
  w.zero = 3;
  const auto check_refused = [&](const stack& by, const std::string& words) {
    check_failed(needs_of(quantity::step, w, by.on, by.find(quantity::step)->values), words);
  };
  check_refused((*stacks)[0], "the constant hop_latency_s is absent, and ZeRO 3 needs it");
  w.zero = 0;
  check_refused((*stacks)[1], "the card v100 has no network_bytes_per_s, and a collective between nodes needs it");
  check_refused((*stacks)[2],
                "the constant softmax_bytes_per_score is absent, and attention that is not fused needs it");
  w.data = 8;
  check_ok(needs_of(quantity::step, w, (*stacks)[1].on, (*stacks)[1].find(quantity::step)->values));
}

BOOST_AUTO_TEST_SUITE_END()
