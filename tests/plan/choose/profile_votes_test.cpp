// Tests how the measurements of all ranks are combined into one result.
#include "plan/choose/profile_votes.hpp"

#include <limits>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(profile_votes)

using namespace troupe;
using namespace troupe::plan;

namespace {

struct measured_job {
  std::vector<std::shared_ptr<const rank_plan>> plans;
  cost_model costs;
  std::vector<rank_vote> votes;  // [rank]; rank r measured r + 1 times the modelled seconds
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
  job.votes[2].memory_bytes = 0;  // the memory of rank 2 is unknown
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
  BOOST_TEST(failure_of([](votes& v) { v.pop_back(); }) == "rank 2 has no profile: it did not report one");
  BOOST_TEST(failure_of([](votes& v) { std::swap(v[0], v[1]); }) == "rank 0 has no profile: it did not report one");
  BOOST_TEST(failure_of([](votes& v) { v.push_back(v[0]); }) ==
             "rank 3 has no profile: the job does not have this rank");
  BOOST_TEST(failure_of([](votes& v) { v[1].prices.resize(vote_prices_max + 1, v[1].prices[0]); }) ==
             "rank 1 has no profile: wanted at most 131072 different instructions, got 131073");
}

BOOST_AUTO_TEST_SUITE_END()
