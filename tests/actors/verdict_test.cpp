// Tests the vote's verdict: loss, norm, clipping, overflow and skipping.
#include "actors/verdict.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "actors/supervisor.hpp"
#include "plan/vote_layout.hpp"
#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(verdict)

using namespace troupe;
using namespace troupe::actors;

namespace {

struct ballot {
  explicit ballot(uint32_t ranks = 2, uint32_t accumulation = 3)
      : p(small_plans(ranks, 1, accumulation).front()), votes(plan::vote_elements(*p->layout), 0.0) {}
  std::shared_ptr<const plan::rank_plan> p;
  std::vector<double> votes;
};

// Computes the factor for the gradients from the formula 1 / (S x clip), independently of the code under test.
double wanted_scale(double square_sum, double scale, double limit) {
  const double norm = std::sqrt(square_sum) / scale;
  return 1 / (scale * std::max(1.0, (norm + 1e-6) / limit));
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

BOOST_AUTO_TEST_CASE(the_loss_is_the_mean_over_ranks_and_micro_batches) {
  ballot b;
  for (uint32_t r = 0; r < 2; ++r)
    for (uint32_t m = 0; m < 3; ++m) b.votes[plan::loss_offset(*b.p->layout, r, m)] = 10 * r + m;
  BOOST_TEST(judge(*b.p, b.votes, 1, {}).loss == 6.0);
}

BOOST_AUTO_TEST_CASE(micro_batches_that_are_passed_over_do_not_count_into_the_loss) {
  ballot b;
  for (uint32_t r = 0; r < 2; ++r)
    for (uint32_t m = 0; m < 3; ++m) b.votes[plan::loss_offset(*b.p->layout, r, m)] = 10 * r + m;
  BOOST_TEST(judge(*b.p, b.votes, 1, {}, 1).loss == 5.0);
  BOOST_TEST(judge(*b.p, b.votes, 1, {}, 2).loss == 5.5);
  BOOST_TEST(judge(*b.p, b.votes, 1, {}, 3).loss == judge(*b.p, b.votes, 1, {}).loss);
}

BOOST_AUTO_TEST_CASE(the_norm_is_that_of_the_mean_gradient_without_loss_scale_and_input_scale) {
  ballot b;
  b.votes[0] = 9;
  b.votes[b.p->layout->num_blocks - 1] = 16;
  BOOST_TEST(judge(*b.p, b.votes, 1, {}).grad_norm == 5.0 / 6, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(judge(*b.p, b.votes, 1024, {}).grad_norm == 5.0 / 6 / 1024, boost::test_tools::tolerance(1e-15));
  job::scaling_rules predivided;
  predivided.input_scale = 0.25;
  const auto v = judge(*b.p, b.votes, 8, predivided);
  BOOST_TEST(v.grad_norm == 5.0 / 6 / 8 / 0.25, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(v.square_sum == 25.0);
}

BOOST_AUTO_TEST_CASE(losses_do_not_count_into_the_norm) {
  ballot b;
  b.votes[plan::loss_offset(*b.p->layout, 1, 2)] = 100;
  BOOST_TEST(judge(*b.p, b.votes, 1, {}).square_sum == 0.0);
}

BOOST_AUTO_TEST_CASE(a_gradient_above_the_limit_is_scaled_down_to_it) {
  for (const double square_sum : {0.01, 1.0, 36.0, 3600.0, 1e12})
    for (const double limit : {0.1, 1.0, 5.0}) {
      BOOST_TEST_INFO_SCOPE("limit " << limit);
      BOOST_TEST_INFO_SCOPE("square sum " << square_sum);
      ballot b;
      b.votes[0] = square_sum;
      job::scaling_rules rules;
      rules.clip = limit;
      const auto v = judge(*b.p, b.votes, 2, rules);
      const double wanted = wanted_scale(square_sum, 6 * 2, limit);
      BOOST_TEST(double(v.gradient_scale) == wanted, boost::test_tools::tolerance(1e-6));
      BOOST_TEST(std::sqrt(square_sum) * double(v.gradient_scale) <= limit * (1 + 1e-6));
    }
}

// Early updates use the factor of a step without clipping. They must be repeated exactly if the bits of the step's
// factor differ.
BOOST_AUTO_TEST_CASE(a_step_is_clipped_if_its_factor_is_another_one) {
  job::scaling_rules rules;
  rules.clip = 2;
  for (const auto& [norm, clipped] : {std::pair{1.9, false}, {2.0 - 1e-6 + 2e-8, false}, {2.0, true}, {2.1, true}}) {
    ballot b(1, 1);
    b.votes[0] = norm * norm;
    const auto v = judge(*b.p, b.votes, 1, rules);
    BOOST_TEST(v.clipped == clipped, norm);
    BOOST_TEST((v.gradient_scale != 1.0F) == clipped, norm);
    BOOST_TEST((v.taken() == (clipped ? plan::branch::clipped : plan::branch::not_skipped)));
  }
  ballot b(1, 1);
  b.votes[0] = infinity;
  rules.skip_overflow = true;
  BOOST_TEST((judge(*b.p, b.votes, 1, rules).taken() == plan::branch::skipped));
}

BOOST_AUTO_TEST_CASE(a_limit_of_zero_means_no_clipping) {
  ballot b;
  b.votes[0] = 1e12;
  BOOST_TEST(double(judge(*b.p, b.votes, 1, {}).gradient_scale) == 1.0 / 6, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(an_infinity_or_a_nan_in_any_block_is_an_overflow_that_skips_only_where_the_rules_say_so) {
  for (const double bad : {infinity, std::nan("")})
    for (const bool skip : {false, true}) {
      BOOST_TEST_INFO_SCOPE("bad " << bad);
      BOOST_TEST_INFO_SCOPE("skip " << skip);
      ballot b;
      b.votes[b.p->layout->num_blocks / 2] = bad;
      job::scaling_rules rules;
      rules.skip_overflow = skip;
      const auto v = judge(*b.p, b.votes, 1, rules);
      BOOST_TEST(v.overflow);
      BOOST_TEST(v.skipped == skip);
      BOOST_TEST(!std::isfinite(v.grad_norm));
    }
  ballot sound;
  job::scaling_rules rules;
  rules.skip_overflow = true;
  BOOST_TEST(!judge(*sound.p, sound.votes, 1, rules).skipped);
}

BOOST_AUTO_TEST_CASE(guarded_instructions_act_unless_the_step_is_skipped) {
  job::scaling_rules rules;
  rules.skip_overflow = true;
  auto sound = context_of(small_plans(1, 1).front(), {}, rules);
  BOOST_TEST(sound->acts(plan::guard::not_skipped));
  auto skipped = context_of(small_plans(1, 1).front(), {}, rules);
  skipped->votes[0] = infinity;
  BOOST_TEST(!skipped->acts(plan::guard::not_skipped));
  BOOST_TEST(skipped->acts(plan::guard::always));
  BOOST_TEST(skipped->acts(plan::guard::undone));
  BOOST_TEST(!skipped->acts(plan::guard::clipped));
  rules.clip = 1;
  auto clipped = context_of(small_plans(1, 1).front(), {}, rules);
  clipped->votes[0] = 1e6;
  for (const auto g : {plan::guard::always, plan::guard::not_skipped, plan::guard::clipped, plan::guard::undone})
    BOOST_TEST(clipped->acts(g));
  BOOST_TEST(!clipped->acts(plan::guard::skipped));
}

BOOST_AUTO_TEST_CASE(ranks_that_saw_the_same_vote_agree) {
  const auto plans = small_plans(3, 2);
  run_contexts ranks;
  for (const auto& p : plans) {
    ranks.push_back(context_of(p));
    ranks.back()->votes[0] = std::nan("");  // NaN is not equal to itself, but ranks agree if their bits are equal
  }
  BOOST_TEST(!disagreement(reports_of(ranks)).has_value());
}

BOOST_AUTO_TEST_CASE(a_rank_whose_verdict_differs_in_one_bit_is_named) {
  const auto plans = small_plans(3, 2);
  for (const bool in_loss : {true, false}) {
    BOOST_TEST_INFO_SCOPE("in loss " << in_loss);
    run_contexts ranks;
    for (const auto& p : plans) {
      ranks.push_back(context_of(p));
      ranks.back()->votes[0] = ranks.back()->votes[plan::loss_offset(*p->layout, 0, 0)] = 1;
    }
    ranks[2]->votes[in_loss ? plan::loss_offset(*plans[2]->layout, 0, 0) : 0] = std::nextafter(1.0, 2.0);
    const auto why = disagreement(reports_of(ranks));
    BOOST_REQUIRE(why.has_value());
    BOOST_TEST(says(why->text, "rank 2"), why->text);
    BOOST_TEST((why->kind == core::error_kind::mismatch));
  }
}

BOOST_AUTO_TEST_SUITE_END()
