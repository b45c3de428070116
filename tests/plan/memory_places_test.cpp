// Checks that every byte of a rank is counted either in device memory or in host memory, and that each memory budget
// limits only its own memory.
#include "plan/memory_places.hpp"

#include <fmt/format.h>

#include "plan/check/check.hpp"
#include "plan/choose/size_search.hpp"
#include "plan/show/render.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(memory_places)

using namespace troupe::plan;

namespace {

/// Returns options of a training step on a device that does not share the host's memory.
plan_options apart(uint32_t ranks, uint32_t stage, tier optimizer) {
  auto o = small_options(ranks, stage);
  o.tiers.apart = true;
  o.tiers.optimizer = optimizer;
  return o;
}

uint64_t on(tier where, const rank_plan& p) {
  return bytes_by_tier(p.memory, p.options().tiers)[static_cast<size_t>(where)];
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_byte_lies_on_the_device_or_on_the_host) {
  const auto table = gpt_table(2, 64, 256, false);
  for (const uint32_t stage : {0U, 1U, 2U, 3U})
    for (const tier optimizer : {tier::device, tier::cpu}) {
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      if (stage == 0 && optimizer != tier::device) continue;
      const auto plans = plans_of(table, apart(2, stage, optimizer));
      const auto& p = *plans[0];
      BOOST_TEST(on(tier::device, p) + on(tier::cpu, p) == p.memory.total());
      BOOST_TEST(device_bytes(p.memory, p.options().tiers) == on(tier::device, p));
      BOOST_TEST((on(tier::cpu, p) >= p.memory.moments) == (optimizer == tier::cpu));
    }
}

BOOST_AUTO_TEST_CASE(a_budget_of_the_host_covers_what_lies_there_alone) {
  const auto table = gpt_table(2, 64, 256, false);
  const auto shared = plans_of(table, small_options(2, 3));
  BOOST_TEST(budgeted_bytes(shared[0]->memory, shared[0]->options().tiers) == shared[0]->memory.states());
  BOOST_TEST(device_bytes(shared[0]->memory, shared[0]->options().tiers) == 0U);
  const auto here = plans_of(table, apart(2, 3, tier::device)), there = plans_of(table, apart(2, 3, tier::cpu));
  BOOST_TEST(budgeted_bytes(here[0]->memory, here[0]->options().tiers) == 0U);
  const auto& m = there[0]->memory;
  BOOST_TEST(budgeted_bytes(m, there[0]->options().tiers) == m.master + m.moments + m.accumulated);
}

BOOST_AUTO_TEST_CASE(a_plan_beyond_the_limit_of_the_device_is_refused_with_its_largest_owner_there) {
  const auto table = gpt_table(2, 64, 256, false);
  auto o = apart(2, 3, tier::cpu);
  const auto plans = plans_of(table, o);
  const uint64_t needed = device_bytes(plans[0]->memory, o.tiers);
  o.device_budget_bytes = needed;
  BOOST_TEST(check(plans_of(table, o)).has_value());
  BOOST_TEST(memory_summary(predict(plans_of(table, o), {})).find("fits, left over") != std::string::npos);
  o.device_budget_bytes = needed - 1;
  const auto proved = check(plans_of(table, o));
  BOOST_REQUIRE(!proved.has_value());
  for (const std::string& part :
       {fmt::format("{} bytes", needed), fmt::format("{} bytes", needed - 1),
        std::string("share of cuda.memory_limit"), std::string("gathered parameters")})
    BOOST_TEST(proved.error().text.find(part) != std::string::npos, proved.error().text << " does not say " << part);
  const auto text = memory_summary(predict(plans_of(table, o), {}));
  for (const char* part : {"rank 0, device memory\n", "\nhost memory beside it\n", "DOES NOT FIT"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(text.find(part) != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_search_counts_the_memory_of_the_device_by_itself) {
  fit_request r;
  r.table = gpt_table(2, 64, 256, false);
  r.options = apart(2, 3, tier::device);
  r.limits.device = 1;
  const auto all = choose(r);
  BOOST_REQUIRE(all.has_value());
  BOOST_TEST(!all->fits);
  BOOST_TEST(all->missing == device_bytes(all->memory, all->options.tiers) - 1);
  r.limits.device = device_bytes(all->memory, all->options.tiers);
  BOOST_TEST(choose(r)->fits);
}

BOOST_AUTO_TEST_SUITE_END()
