// Every plan is what it was before the generator was cut into phases.
#include "plan/check/check.hpp"
#include "tests/plan/former/difference.hpp"
#include "tests/plan/former/former.hpp"
#include "tests/plan/samples.hpp"

using namespace troupe::plan;

BOOST_AUTO_TEST_SUITE(same)

namespace {

using former::difference;

uint64_t plans_compared = 0, instructions_compared = 0;

void compare(const shared_table& table, const plan_options& o) {
  const auto layout = make_layout(table, o);
  if (!layout) return;
  for (uint32_t r = 0; r < o.ranks; ++r) {
    const auto was = former::generate(*layout, r), is = generate(*layout, r);
    const auto d = difference(*was, *is);
    BOOST_TEST_REQUIRE(d.empty(), "stage " << o.stage << ", mode " << int(o.mode) << ", accumulation " << o.accumulation
                                           << ", rank " << r << ": " << d);
    ++plans_compared;
    instructions_compared += is->instructions.size();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_the_grid) {
  for (const bool tied : {false, true})
    for (uint32_t ranks = 1; ranks <= 4; ++ranks)
      for (uint32_t stage = 0; stage <= 3; ++stage)
        for (const uint32_t accumulation : {1U, 3U})
          for (const bool micro_first : {false, true})
            for (const bool overlap : {false, true})
              for (const uint64_t bucket : {1ULL, 20'000ULL, 500'000'000ULL})
                for (const mode m : {mode::train, mode::evaluate, mode::generate}) {
                  plan_options o = small_options(ranks, stage, accumulation);
                  o.mode = m;
                  o.sum_micro_first = micro_first;
                  o.overlap = overlap;
                  o.reduce_bucket = o.allgather_bucket = o.sub_group = bucket;
                  compare(gpt_table(2, 64, 256, tied), o);
                }
}

BOOST_AUTO_TEST_CASE(of_the_grid_of_stage_3) {
  for (const bool tied : {false, true})
    for (const uint32_t ranks : {1U, 2U, 3U})
      for (const uint32_t accumulation : {1U, 3U})
        for (const uint64_t prefetch : {0ULL, 20'000ULL, 1'000'000'000ULL})
          for (const uint64_t live : {0ULL, 60'000ULL, 1'000'000'000ULL})
            for (const uint64_t reuse : {0ULL, 30'000ULL, 1'000'000'000ULL})
              for (const uint64_t persistence : {0ULL, 200ULL, 1'000'000ULL})
                for (const bool recompute : {false, true}) {
                  plan_options o = small_options(ranks, 3, accumulation);
                  o.prefetch_bucket = prefetch;
                  o.max_live = live;
                  o.max_reuse_distance = reuse;
                  o.persistence_threshold = persistence;
                  o.recompute = recompute;
                  compare(gpt_table(2, 64, 256, tied), o);
                }
}

BOOST_AUTO_TEST_CASE(of_the_grid_of_speculation) {
  for (const bool tied : {false, true})
    for (uint32_t ranks = 1; ranks <= 3; ++ranks)
      for (uint32_t stage = 0; stage <= 3; ++stage)
        for (const uint32_t accumulation : {1U, 3U})
          for (const bool micro_first : {false, true})
            for (const bool saves : {false, true})
              for (const uint64_t sub_group : {1ULL, 20'000ULL, 500'000'000ULL})
                for (const uint64_t persistence : {0ULL, 200ULL, 1'000'000ULL}) {
                  auto o = small_options(ranks, stage, accumulation);
                  o.speculate = true;
                  o.sum_micro_first = micro_first;
                  o.saves = saves;
                  o.sub_group = sub_group;
                  o.persistence_threshold = persistence;
                  compare(gpt_table(2, 64, 256, tied), o);
                }
}

BOOST_AUTO_TEST_CASE(of_states_in_files_that_speculate) {
  for (const bool tied : {false, true})
    for (uint32_t stage = 1; stage <= 3; ++stage)
      for (const uint32_t accumulation : {1U, 2U})
        for (const tier parameters : {tier::device, tier::nvme})
          for (const bool skips : {false, true})
            for (const uint32_t slots : {1U, 3U}) {
              if (parameters == tier::nvme && stage != 3) continue;
              auto o = small_options(2, stage, accumulation);
              o.speculate = true;
              o.may_skip = skips;
              o.tiers.optimizer = tier::nvme;
              o.tiers.parameters = parameters;
              o.tiers.state_slots = slots;
              o.tiers.read_ahead = o.tiers.write_behind = slots > 1;
              compare(gpt_table(4, 64, 256, tied), o);
            }
}

BOOST_AUTO_TEST_CASE(of_random_models_and_options) {
  for (uint64_t seed = 0; seed < 4000; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      auto o = random_options(*table, random);
      compare(table, o);
      o.speculate = true;
      o.may_skip = random() % 2 == 0;
      compare(table, o);
      o.mode = mode::train;
      o.recompute = true;
      o.tiers = o.stage > 0 ? random_tiers(o, random) : tier_options{};
      if (o.tiers.swaps())
        for (auto& x : o.optimizer) x.need = update_need::elements;
      o.speculate = random() % 2 == 0;
      compare(table, o);
    }
  BOOST_TEST_MESSAGE(plans_compared << " plans, " << instructions_compared << " instructions are the same");
  BOOST_TEST(plans_compared > 2000U);
}

BOOST_AUTO_TEST_SUITE_END()
