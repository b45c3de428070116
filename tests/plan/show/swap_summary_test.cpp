#include "plan/show/swap_summary.hpp"

#include "plan/choose/size_search.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(swap_summary)

using namespace troupe::plan;

namespace {

shared_plans swapping_plans() {
  auto o = small_options(2, 3, 2);
  o.tiers.optimizer = o.tiers.parameters = tier::nvme;
  o.tiers.swap_gradients = true;
  return plans_of(gpt_table(2, 64, 256, true), o);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_disk_is_busy_for_as_long_as_its_bytes_take) {
  const auto plans = swapping_plans();
  cost_model costs;
  const auto t = predict(plans, costs);
  for (uint32_t r = 0; r < 2; ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    double seconds = 0;
    for (const auto& x : plans[r]->instructions)
      if (x.lane == lane::io) seconds += predicted_seconds(*plans[r], x, costs);
    const auto times = disk_times_of(t, r);
    BOOST_TEST(times.busy_s == seconds, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(times.hidden_s + times.exposed_s == times.busy_s, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(times.exposed_s > 0.0);
  }
}

BOOST_AUTO_TEST_CASE(slow_arithmetic_hides_more_of_the_disk) {
  const auto plans = swapping_plans();
  cost_model fast, slow;
  fast.flops_per_s = 1e15;
  slow.flops_per_s = 1e8;
  const auto little = disk_times_of(predict(plans, fast), 0), much = disk_times_of(predict(plans, slow), 0);
  BOOST_TEST(much.hidden_s > 2 * little.hidden_s);
  BOOST_TEST(much.exposed_s < little.exposed_s);
}

BOOST_AUTO_TEST_CASE(tiers_bytes_and_times_are_shown_if_something_leaves_the_device) {
  const auto plans = swapping_plans();
  const auto text = tiers_as_text(predict(plans, {}), 1);
  for (const char* part : {"tier", "device", "nvme", "rank 0", "rank 1", "a step of rank 1", "  states", "  gradients",
                           "  shards", "in all", "predicted disk time ", " exposed\n"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(text, part), text);
  const auto all = traffic_of(*plans[1]);
  uint64_t read = 0;
  for (const auto what : {swapped::states, swapped::gradients, swapped::shards})
    read += traffic_of(*plans[1], what).read;
  BOOST_TEST(read == all.read);
  const auto kept = plans_of(gpt_table(2, 64, 256, true), small_options(2, 3));
  BOOST_TEST(tiers_as_text(predict(kept, {}), 0).empty());
  auto o = small_options(2, 2);
  o.tiers.optimizer = tier::cpu;
  const auto moved = tiers_as_text(predict(plans_of(gpt_table(2, 64, 256, true), o), {}), 0);
  BOOST_TEST(has(moved, "cpu"), moved);
  BOOST_TEST(!has(moved, "disk"), moved);
}

BOOST_AUTO_TEST_SUITE_END()
