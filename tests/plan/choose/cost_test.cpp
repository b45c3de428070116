#include "plan/choose/cost.hpp"

#include <algorithm>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(cost)

using namespace troupe::plan;

namespace {

constexpr cost_model plain{.flops_per_s = 1e9, .copy_bytes_per_s = 1e9, .latency_s = 0};

const instruction& first_of(const rank_plan& p, kind k) {
  return *std::find_if(p.instructions.begin(), p.instructions.end(), [k](const instruction& x) { return x.kind == k; });
}

}  // namespace

// Each segment of the sample models has 1e6 flops and keeps 4096 bytes.
BOOST_AUTO_TEST_CASE(an_instruction_costs_its_flops_and_the_bytes_it_touches) {
  const auto p = plans_of(chain_table({10'000, 10'000}), small_options(2, 2))[0];
  const auto tolerance = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(predicted_seconds(*p, first_of(*p, kind::forward), plain) == 1e-3 + 4.096e-6, tolerance);
  BOOST_TEST(predicted_seconds(*p, first_of(*p, kind::backward), plain) == 2e-3 + 4.096e-6 + 40e-6, tolerance);
  BOOST_TEST(predicted_seconds(*p, first_of(*p, kind::reduce), plain) == 40e-6, tolerance);
  BOOST_TEST(predicted_seconds(*p, first_of(*p, kind::load), plain) == 0.0);
}

// Two ranks share the device and its bandwidth.
BOOST_AUTO_TEST_CASE(on_a_device_an_instruction_costs_the_memory_that_it_moves_bytes_in) {
  const auto tolerance = boost::test_tools::tolerance(1e-12);
  cost_model card = plain;
  card.device_bytes_per_s = 10e9;
  card.link_bytes_per_s = 0.1e9;
  auto options = small_options(2, 2);
  options.tiers.apart = true;
  const auto near = plans_of(chain_table({10'000, 10'000}), options)[0];
  BOOST_TEST(predicted_seconds(*near, first_of(*near, kind::forward), card) == 2 * (1e-3 + 0.4096e-6), tolerance);
  BOOST_TEST(predicted_seconds(*near, first_of(*near, kind::reduce), card) == 2 * 4e-6, tolerance);
  options.tiers.optimizer = tier::cpu;
  const auto up = plans_of(chain_table({10'000, 10'000}), options)[0];
  BOOST_TEST(predicted_seconds(*up, first_of(*up, kind::reduce), card) == 2 * 400e-6, tolerance);
  const instruction& update = first_of(*up, kind::update);
  BOOST_TEST(predicted_seconds(*up, update, card) == double(update.moved_bytes) / 1e9, tolerance);
}

BOOST_AUTO_TEST_CASE(sixteen_bits_multiply_twice_as_fast_and_fp64_half_as_fast) {
  using troupe::core::dtype;
  const double fp32 = default_costs(dtype::f32).flops_per_s;
  BOOST_TEST(default_costs(dtype::bf16).flops_per_s > 2 * fp32);
  BOOST_TEST(default_costs(dtype::f64).flops_per_s == fp32 / 2);
}

BOOST_AUTO_TEST_CASE(sixteen_bits_multiply_no_faster_than_fp32_where_the_processor_has_no_instructions_for_them) {
  using troupe::core::dtype;
  const double fp32 = default_costs(dtype::f32).flops_per_s;
  for (const dtype type : {dtype::bf16, dtype::f16}) {
    BOOST_TEST(default_costs(type, /*native_products=*/false).flops_per_s < fp32);
    BOOST_TEST(default_costs(type, /*native_products=*/false).flops_per_s > fp32 / 2);
  }
  BOOST_TEST(default_costs(dtype::f32, /*native_products=*/false).flops_per_s == fp32);
}

BOOST_AUTO_TEST_CASE(a_played_step_keeps_lanes_dependencies_and_collectives) {
  for (uint64_t seed = 0; seed < 60; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      const auto options = random_options(*table, random);
      if (!make_layout(table, options)) continue;
      const auto plans = plans_of(table, options);
      const auto t = predict(plans, default_costs(options.types.parameter));
      BOOST_REQUIRE(t.ranks.size() == plans.size());
      for (uint32_t r = 0; r < plans.size(); ++r) {
        BOOST_TEST_INFO_SCOPE("r " << r);
        const auto& at = t.ranks[r].instructions;
        for (const auto& x : plans[r]->instructions) {
          BOOST_TEST((at[x.id].start_s <= at[x.id].moving_s && at[x.id].moving_s <= at[x.id].end_s));
          BOOST_TEST((x.kind == kind::write || at[x.id].end_s <= t.step_s));
          for (uint32_t on : x.after) BOOST_TEST_CONTEXT("on " << on) BOOST_TEST(at[on].end_s <= at[x.id].start_s);
          if (x.lane != lane::fabric) continue;
          const auto& first = t.ranks[0].instructions[plans[0]->lanes[static_cast<size_t>(lane::fabric)][x.sequence]];
          BOOST_TEST((at[x.id].moving_s == first.moving_s && at[x.id].end_s == first.end_s));
          BOOST_TEST(first.moving_s >= at[x.id].start_s);
        }
        for (const auto& order : plans[r]->lanes)
          for (size_t i = 1; i < order.size(); ++i) {
            BOOST_TEST_INFO_SCOPE("i " << i);
            // The lane continues as soon as it has queued a block for the disk; the disk writes one block after the
            // other.
            const auto &before = at[order[i - 1]], &x = at[order[i]];
            const bool handed_over = plans[r]->instructions[order[i - 1]].kind == kind::write;
            BOOST_TEST((handed_over ? before.start_s <= x.start_s : before.end_s <= x.moving_s + 1e-12));
            if (handed_over && i + 1 < order.size()) BOOST_TEST(before.end_s <= at[order[i + 1]].moving_s + 1e-12);
          }
        for (const double idle : t.ranks[r].idle_s)
          BOOST_TEST_CONTEXT("idle " << idle) BOOST_TEST((idle > -1e-9 && idle <= t.step_s));
        BOOST_TEST((t.ranks[r].exposed_s >= 0 && t.ranks[r].exposed_s <= t.ranks[r].communication_s + 1e-12));
      }
    }
}

// Two units of 1 ms forward and 2 ms backward run on one rank; no other instruction takes time.
BOOST_AUTO_TEST_CASE(a_step_without_communication_is_the_sum_of_its_computations) {
  cost_model free_bytes = plain;
  free_bytes.copy_bytes_per_s = 1e30;
  const auto t = predict(plans_of(chain_table({4096, 4096}), small_options(1, 0)), free_bytes);
  BOOST_TEST(t.step_s == 6e-3, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(t.ranks[0].compute_s == 6e-3, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(t.ranks[0].exposed_s < 1e-9);
}

BOOST_AUTO_TEST_CASE(prefetch_and_overlap_hide_communication) {
  auto o = small_options(2, 3);
  o.gradients.reduce_bucket = 20'000;
  const auto table = chain_table({20'000, 20'000, 20'000, 20'000});
  o.gathering.prefetch_bucket = 20'000;
  const auto ahead = predict(plans_of(table, o), plain);
  o.overlap = false;
  const auto alone = predict(plans_of(table, o), plain);
  BOOST_TEST(ahead.step_s < alone.step_s);
  BOOST_TEST(ahead.ranks[0].exposed_s < alone.ranks[0].exposed_s / 2);
}

BOOST_AUTO_TEST_CASE(publishing_beside_updates_is_hidden_too) {
  auto o = small_options(2, 1);
  const auto table = chain_table({20'000, 20'000, 20'000, 20'000, 20'000, 20'000, 20'000, 20'000});
  o.gradients.reduce_bucket = 20'000;
  o.updates.sub_group = o.updates.allgather_bucket = 500'000'000;
  const auto whole = predict(plans_of(table, o), plain);
  o.updates.allgather_bucket = 20'000;
  o.updates.sub_group = 10'000;
  const auto parts = predict(plans_of(table, o), plain);
  BOOST_TEST(parts.ranks[0].exposed_s < whole.ranks[0].exposed_s / 2);
  BOOST_TEST(parts.step_s < whole.step_s);
}

BOOST_AUTO_TEST_SUITE_END()
