// Votes of ranks on what they have measured: how they are joined, and that they cross between processes as numbers.
#include "plan/choose/vote.hpp"

#include <bit>
#include <limits>

#include "tests/plan/samples.hpp"

using namespace troupe;
using namespace troupe::plan;

namespace {

struct measured_job {
  std::vector<std::shared_ptr<const rank_plan>> plans;
  cost_model costs;
  std::vector<rank_vote> votes;  // rank r's instructions took r + 1 times what is modelled
};

measured_job three_ranks() {
  measured_job out;
  out.plans = plans_of(gpt_table(2, 64, 256, false), small_options(3, 3));
  for (const auto& p : out.plans) {
    measured_prices mine(out.costs);
    for (const auto& x : p->instructions) mine.add(*p, x, (p->rank + 1) * predicted_seconds(*p, x, out.costs));
    out.votes.push_back({.rank = p->rank,
                         .memory_bytes = 1000 - 10 * p->rank,
                         .peak_bytes = p->rank == 1 ? 900U : 700U,
                         .step_s = 0.5 * (p->rank + 1),
                         .prices = mine.sums()});
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(votes)

BOOST_AUTO_TEST_CASE(the_least_memory_the_highest_peak_and_mean_times_are_what_all_go_by) {
  auto job = three_ranks();
  const auto joined = join(job.votes, 3, job.costs);
  BOOST_TEST(joined.failure.empty(), joined.failure);
  BOOST_TEST(joined.memory_bytes == 980U);
  BOOST_TEST(joined.peak_bytes == 900U);
  BOOST_TEST(joined.step_s == 1.5);
  for (const auto& x : job.plans[0]->instructions)
    if (x.kind == kind::forward || x.kind == kind::gather)
      BOOST_TEST(joined.prices->seconds(*job.plans[0], x) == 2 * predicted_seconds(*job.plans[0], x, job.costs),
                 boost::test_tools::tolerance(1e-12));
  job.votes[2].memory_bytes = 0;  // unknown there
  BOOST_TEST(join(job.votes, 3, job.costs).memory_bytes == 990U);
}

BOOST_AUTO_TEST_CASE(one_rank_without_a_profile_is_named_and_there_are_no_times_then) {
  const auto failure_of = [](auto&& spoil) {
    auto job = three_ranks();
    spoil(job.votes);
    const auto joined = join(job.votes, 3, job.costs);
    BOOST_TEST((joined.prices == nullptr) == !joined.failure.empty());
    return joined.failure;
  };
  using votes = std::vector<rank_vote>;
  BOOST_TEST(failure_of([](votes&) {}).empty());
  BOOST_TEST(failure_of([](votes& v) { v[1].failure = "it was suspended"; }) ==
             "rank 1 has no profile: it was suspended");
  BOOST_TEST(failure_of([](votes& v) { v[2].prices.clear(); }) == "rank 2 has no profile: no step was measured");
  BOOST_TEST(failure_of([](votes& v) {
               v[0].prices[0].seconds = std::numeric_limits<double>::quiet_NaN();
             }).starts_with("rank 0 has no profile: wanted the time of every "));
  BOOST_TEST(
      failure_of([](votes& v) { v[0].step_s = -1; }).starts_with("rank 0 has no profile: wanted the time of a "));
  BOOST_TEST(failure_of([](votes& v) { v.pop_back(); }) == "rank 2 has no profile: it has not voted");
  BOOST_TEST(failure_of([](votes& v) { std::swap(v[0], v[1]); }) == "rank 0 has no profile: it has not voted");
  BOOST_TEST(failure_of([](votes& v) { v.push_back(v[0]); }) == "rank 3 has no profile: there is none of this number");
  BOOST_TEST(failure_of([](votes& v) { v[1].prices.resize(vote_prices_max + 1, v[1].prices[0]); }) ==
             "rank 1 has no profile: wanted at most 131072 different instructions, got 131073");
}

BOOST_AUTO_TEST_CASE(a_vote_crosses_as_numbers_to_the_bit) {
  auto job = three_ranks();
  job.votes[1].failure = std::string(23, 'x') + "\xff";
  for (const auto& v : job.votes) {
    const auto words = words_of(v);
    const auto back = vote_of(words);
    BOOST_TEST_REQUIRE(back.has_value());
    BOOST_TEST(words_of(*back) == words, boost::test_tools::per_element());
    BOOST_TEST(back->failure == v.failure);
    BOOST_TEST(std::bit_cast<uint64_t>(back->step_s) == std::bit_cast<uint64_t>(v.step_s));
    BOOST_TEST_REQUIRE(back->prices.size() == v.prices.size());
    for (size_t k = 0; k < v.prices.size(); ++k) {
      BOOST_TEST(std::bit_cast<uint64_t>(back->prices[k].seconds) == std::bit_cast<uint64_t>(v.prices[k].seconds));
      BOOST_TEST(back->prices[k].subject == v.prices[k].subject);
      BOOST_TEST((back->prices[k].kind == v.prices[k].kind));
    }
  }
}

BOOST_AUTO_TEST_CASE(votes_are_bounded_and_numbers_that_are_none_are_refused) {
  rank_vote large{.rank = 1, .failure = std::string(5000, 'y'), .step_s = 1};
  BOOST_TEST(vote_of(words_of(large))->failure.size() == vote_failure_max);
  large.failure.clear();
  large.prices.resize(vote_prices_max + 1, {.seconds = 1, .count = 1});
  const auto cut = vote_of(words_of(large));
  BOOST_TEST(cut->prices.empty());
  BOOST_TEST(cut->failure == "wanted at most 131072 different instructions, got 131073");
  const auto words = words_of(three_ranks().votes[0]);
  for (size_t n = 0; n < 5; ++n) BOOST_TEST(!vote_of(std::span(words).first(n)).has_value());
  BOOST_TEST(!vote_of(std::span(words).first(words.size() - 1)).has_value());
  std::mt19937_64 random(5);
  for (int k = 0; k < 2000; ++k) {
    auto other = words;
    other[random() % std::min<size_t>(other.size(), 12)] = random() >> random() % 64;
    if (const auto v = vote_of(other)) BOOST_TEST(words_of(*v) == other, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
