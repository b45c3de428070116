// Tests plans of models whose tied weights have a separate gradient for each use: the checker accepts every schedule,
// ZeRO stage and memory tier, and the gradients of a tied weight are exchanged and added once a step.
#include "plan/check/check.hpp"
#include "plan/layout/ties.hpp"
#include "plan/schedule/timing.hpp"
#include "tests/plan/tied_samples.hpp"

BOOST_AUTO_TEST_SUITE(tied)

using namespace troupe::plan;

namespace {

shared_plans proved(const shared_table& table, const plan_options& o) {
  const auto plans = plans_of(table, o);
  const auto verdict = check(plans);
  BOOST_TEST_REQUIRE(verdict.has_value(), (verdict ? "" : verdict.error().text));
  return plans;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_named_schedule_is_proved_with_tied_weights_at_every_zero_stage) {
  const auto table = copied(gpt_table(6, 32, 100, true));
  for (const auto& schedule : named_schedules())
    for (uint32_t ranks = 2; ranks <= 4; ++ranks) {
      const pipeline_shape shape{.ranks = ranks, .chunks = std::max(1U, schedule.chunks), .micro_batches = 2 * ranks};
      if (!make_table(schedule, shape)) continue;
      for (uint32_t stage = 0; stage <= 3; ++stage)
        BOOST_TEST_CONTEXT(schedule.name << ", " << ranks << " ranks, stage " << stage) {
          auto o = staged_per_use(*table, std::string(schedule.name).c_str(), shape, 2, stage);
          if (!trains(o.pipeline.table)) o.mode = mode::evaluate;
          for (const auto& p : proved(table, o)) {
            const bool holds = p->layout->holds(p->rank, 0) ||
                               p->layout->holds(p->rank, static_cast<uint32_t>(table->parameters.size() - 1));
            BOOST_TEST(count(*p, kind::tied_sum) == (holds && o.mode == mode::train ? 1U : 0U));
          }
        }
    }
}

BOOST_AUTO_TEST_CASE(the_first_and_the_last_stage_exchange_and_the_ones_between_do_nothing) {
  const auto table = copied(gpt_table(6, 32, 100, true));
  const auto plans = proved(table, staged_per_use(*table, "1f1b", {3, 1, 4}, 1, 1));
  for (const size_t r : {size_t{0}, size_t{2}}) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    const auto& p = *plans[r];
    BOOST_TEST(count(p, kind::tie) == 1U);
    const auto &met = only(p, kind::tie), &sum = only(p, kind::tied_sum);
    BOOST_TEST(p.describe(met.id) == "tie p0, micro 3");
    BOOST_TEST(p.describe(sum.id) == "tied_sum p0, micro 3");
    BOOST_TEST(sum.slots.moved == met.slots.moved);
    BOOST_TEST((p.buffers[sum.slots.moved].pool == pool::transfers));
    BOOST_TEST(p.buffers[sum.slots.moved].bytes == tied_room(*p.layout, 0) * sizeof(float));
    BOOST_TEST((p.layout->communicators[met.communicator].members == std::vector<uint32_t>{0, 2}));
  }
  BOOST_TEST(count(*plans[1], kind::tie) + count(*plans[1], kind::tied_sum) == 0U);
  // The gradient norm counts the original of the tied weight, whose gradient is the sum, and omits the copy.
  const auto &first = *plans[0], &last = *plans[2];
  const auto norms = [](const rank_plan& p, uint32_t q) {
    return std::ranges::count_if(p.instructions, [&](const instruction& x) {
      return x.kind == kind::norm && x.subject == p.layout->bucket_of[q];
    });
  };
  BOOST_TEST(norms(first, 0) == 1);
  BOOST_TEST(norms(last, static_cast<uint32_t>(table->parameters.size() - 1)) == 0);
}

BOOST_AUTO_TEST_CASE(more_than_two_uses_on_two_ranks_are_proved) {
  const auto table = four_uses();
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool micro_first : {false, true}) {
      BOOST_TEST_INFO_SCOPE("micro first " << micro_first);
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      auto o = staged_per_use(*table, "interleaved", {2, 2, 4}, 2, stage);
      o.gradients.sum_micro_first = micro_first;
      for (const auto& p : proved(table, o)) {
        BOOST_TEST(count(*p, kind::tie) == 2U);
        BOOST_TEST(count(*p, kind::tied_sum) == 1U);
        BOOST_TEST(p->buffers[only(*p, kind::tied_sum).slots.moved].bytes ==
                   2 * tied_room(*p->layout, 0) * sizeof(float));
      }
      o = staged_per_use(*table, "gpipe", {4, 1, 4}, 2, stage);
      o.gradients.sum_micro_first = micro_first;
      for (const auto& p : proved(table, o)) BOOST_TEST(count(*p, kind::tie) == 3U);
    }
}

BOOST_AUTO_TEST_CASE(where_one_rank_holds_all_uses_they_are_added_without_an_exchange) {
  const auto table = copied(gpt_table(2, 64, 256, true));
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const uint32_t accumulation : {1U, 3U})
      for (const bool micro_first : {false, true}) {
        BOOST_TEST_INFO_SCOPE("accumulation " << accumulation);
        BOOST_TEST_INFO_SCOPE("micro first " << micro_first);
        BOOST_TEST_INFO_SCOPE("stage " << stage);
        auto o = per_use(small_options(2, stage, accumulation));
        o.gradients.sum_micro_first = micro_first;
        for (const auto& p : proved(table, o)) {
          BOOST_TEST(count(*p, kind::tie) == 0U);
          BOOST_TEST(only(*p, kind::tied_sum).slots.moved == none);
          BOOST_TEST(p->memory.transfers == 0U);
        }
      }
}

BOOST_AUTO_TEST_CASE(plans_of_random_models_with_copies_are_proved) {
  uint32_t proved_plans = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = copied(random_table(random));
      auto options = per_use(random_options(*table, random));
      follow_originals(*table, options.updates.rules);
      if (random() % 3 == 0) options.updates.speculate = true;
      options.updates.may_clip = seed % 2 == 0;
      if (!make_layout(table, options)) continue;  // the model has fewer blocks than there are ranks
      (void)proved(table, options);
      ++proved_plans;
    }
  BOOST_TEST(proved_plans > 300U);
}

BOOST_AUTO_TEST_CASE(gradients_in_files_wait_in_their_windows_until_they_are_added) {
  const auto table = four_uses();
  for (const uint32_t accumulation : {1U, 2U}) {
    BOOST_TEST_INFO_SCOPE("accumulation " << accumulation);
    auto o = per_use(small_options(2, 3, accumulation));
    o.gradients.sum_micro_first = false;
    o.tiers.optimizer = tier::nvme;
    o.tiers.swap_gradients = true;
    for (const auto& p : proved(table, o)) {
      const auto& sum = only(*p, kind::tied_sum);
      for (const uint32_t q : p->layout->ties[0].parameters) {
        BOOST_TEST_INFO_SCOPE("q " << q);
        const uint32_t window = p->bucket_window[p->layout->bucket_of[q]];
        BOOST_TEST_REQUIRE(window != none);
        BOOST_TEST(p->buffers[window].last > sum.id);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(optimizers_that_need_whole_parameters_are_proved_across_stages) {
  const auto table = copied(gpt_table(4, 32, 100, true));
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const auto need : {update_need::parameter_norms, update_need::whole_matrix})
      for (const bool saves : {false, true}) {
        auto o = staged_per_use(*table, "1f1b", {2, 1, 4}, 2, stage);
        o.updates.rules.assign(table->parameters.size(), {2, need});
        o.saving.on = saves;
        (void)proved(table, o);
      }
}

BOOST_AUTO_TEST_CASE(updates_before_the_vote_wait_for_the_sum) {
  const auto table = copied(gpt_table(4, 32, 100, true));
  for (const bool cut : {false, true}) {
    BOOST_TEST_INFO_SCOPE("cut " << cut);
    auto o = cut ? staged_per_use(*table, "1f1b", {2, 1, 4}, 2, 2) : per_use(small_options(2, 2, 4));
    o.updates.speculate = true;
    for (const auto& p : proved(table, o))
      for (const auto& x : p->instructions)
        if (x.kind == kind::update) BOOST_TEST(p->speculates(x.subject));
  }
}

BOOST_AUTO_TEST_SUITE_END()
