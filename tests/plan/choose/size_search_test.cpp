#include "plan/choose/size_search.hpp"

#include "plan/check/check.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(size_search)

using namespace troupe::plan;

namespace {

constexpr open_choices everything{.sub_group = true,
                                  .bucket = true,
                                  .state_slots = true,
                                  .parameter_slots = true,
                                  .gradient_slots = true,
                                  .gathering = true,
                                  .swap_gradients = true,
                                  .resident_parameters = true,
                                  .ratio = true};

/// Returns a request for a small GPT with all its states in swap files.
fit_request request_for(uint32_t ranks = 2) {
  fit_request r;
  r.table = gpt_table(4, 64, 512, true);
  r.options.mesh = troupe::core::data_mesh(ranks);
  r.options.stage = 3;
  r.options.accumulation = 2;
  r.options.gradients.sum_micro_first = false;
  r.options.tiers.optimizer = r.options.tiers.parameters = tier::nvme;
  r.open = everything;
  return r;
}

fitted chosen(const fit_request& r) {
  auto out = choose(r);
  BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().text));
  return *out;
}

/// Checks that the plans of the chosen options pass the checker with the request's limit as their memory budget.
void prove(const fit_request& r, const fitted& x) {
  auto options = x.options;
  options.memory_budget_bytes = r.limits.states;
  const auto plans = plans_of(r.table, options);
  const auto ok = check(plans);
  BOOST_TEST(ok.has_value(), (ok ? "" : ok.error().text));
  uint64_t most = 0;
  for (const auto& p : plans) most = std::max(most, p->memory.total());
  BOOST_TEST(most == x.memory.total());
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_choice_fits_and_passes_the_checker_down_to_the_least_budget_that_works) {
  auto r = request_for();
  r.limits.states = 1;
  const uint64_t least = chosen(r).memory.states();
  BOOST_TEST(least > 1U);
  double last = 0;
  for (const uint64_t limit : {16 * least, 3 * least, 2 * least, least + least / 2, least + least / 8, least}) {
    r.limits.states = limit;
    const auto x = chosen(r);
    BOOST_TEST_CONTEXT(limit << " bytes") {
      BOOST_TEST(x.fits);
      BOOST_TEST(x.missing == 0U);
      BOOST_TEST(x.memory.states() <= limit);
      BOOST_TEST(x.step_s >= last * 0.99);  // a tighter memory limit makes no step faster
      last = x.step_s;
      prove(r, x);
    }
  }
  r.limits.states = least - 1;
  const auto x = chosen(r);
  BOOST_TEST(!x.fits);
  BOOST_TEST(x.missing == 1U);
  BOOST_TEST(x.memory.states() == least);
}

BOOST_AUTO_TEST_CASE(memory_that_is_left_keeps_states_out_of_files) {
  auto r = request_for();
  r.limits.states = 1;
  const auto least = chosen(r);
  r.limits.states = 2 * least.memory.states();
  const auto some = chosen(r);
  r.limits.states = uint64_t{1} << 40;
  const auto all = chosen(r);
  BOOST_TEST(some.traffic.read < least.traffic.read);
  BOOST_TEST(all.traffic.read < some.traffic.read);
  BOOST_TEST(all.options.tiers.ratio == 0.0);
  BOOST_TEST(!all.options.tiers.swap_gradients);
  const auto p = plans_of(r.table, all.options)[0];
  BOOST_TEST(traffic_of(*p, swapped::shards).read == 0U);
  // Parameters that stay in memory are still written to their swap file.
  BOOST_TEST(all.traffic.read == all.traffic.written);
}

// Forward and backward read the parameters for each micro-batch: with more micro-batches, parameters are kept in memory
// before other states.
BOOST_AUTO_TEST_CASE(states_that_are_read_most_often_are_kept_first) {
  auto r = request_for();
  r.open = {.resident_parameters = true, .ratio = true};
  r.options.gradients.reduce_bucket = r.options.updates.sub_group = 4096;
  r.options.tiers.state_slots = 3;
  r.options.tiers.read_ahead = r.options.tiers.write_behind = true;
  r.costs.disk_latency_s = r.costs.latency_s = 0;
  r.options.gathering.persistence_threshold = r.options.gathering.prefetch_bucket =
      r.options.gathering.max_reuse_distance = 0;
  r.limits.states = 1;
  const auto least = chosen(r);
  r.limits.states = least.memory.states() + 200'000;
  r.options.accumulation = 8;
  const auto often = chosen(r);
  BOOST_TEST(often.fits);
  BOOST_TEST(often.options.tiers.resident_parameters > 0U);
  BOOST_TEST(often.options.tiers.ratio > 0.9);
  auto slow_writes = r;
  slow_writes.options.accumulation = 1;
  slow_writes.costs.disk_bytes_per_s = slow_writes.costs.disk_read_bytes_per_s / 100;
  const auto seldom = chosen(slow_writes);
  BOOST_TEST(seldom.fits);
  BOOST_TEST(seldom.options.tiers.ratio < often.options.tiers.ratio);
}

BOOST_AUTO_TEST_CASE(given_sizes_are_left_alone) {
  auto r = request_for();
  r.open = {};
  r.options.updates.sub_group = 5000;
  r.options.gradients.reduce_bucket = 7000;
  r.options.tiers.state_slots = 2;
  r.options.tiers.ratio = 0.5;
  r.options.tiers.resident_parameters = 3000;
  r.limits.states = 1000;
  const auto x = chosen(r);
  BOOST_TEST(!x.fits);
  auto expected = r.options;
  BOOST_TEST((x.options == expected));
}

BOOST_AUTO_TEST_CASE(without_a_limit_only_the_named_states_leave_memory) {
  auto r = request_for();
  r.options.tiers.parameters = tier::device;
  const auto x = chosen(r);
  BOOST_TEST(x.fits);
  BOOST_TEST(!x.options.tiers.swap_gradients);
  BOOST_TEST(x.options.tiers.ratio == 1.0);
  BOOST_TEST(x.options.tiers.resident_parameters == 0U);
  BOOST_TEST(x.options.tiers.state_slots > 1U);
}

BOOST_AUTO_TEST_CASE(all_ranks_fit_if_there_are_more_than_the_search_looks_at) {
  auto r = request_for(fit_sample_ranks_max + 3);
  r.limits.states = 1;
  const uint64_t least = chosen(r).memory.states();
  r.limits.states = least + least / 4;
  const auto x = chosen(r);
  BOOST_TEST(x.fits);
  prove(r, x);
}

BOOST_AUTO_TEST_CASE(all_memory_can_be_limited_with_activations) {
  auto r = request_for();
  r.limits = {.states = 0, .total = 1};
  const auto least = chosen(r);
  BOOST_TEST(!least.fits);
  r.limits.total = least.memory.total();
  BOOST_TEST(chosen(r).fits);
  BOOST_TEST(least.memory.total() - least.memory.states() == least.memory.activations + least.memory.votes);
}

BOOST_AUTO_TEST_CASE(options_that_the_generator_refuses_are_refused) {
  auto r = request_for(4000);
  const auto x = choose(r);
  BOOST_REQUIRE(!x);
  BOOST_TEST(x.error().text.find("parallel.data") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
