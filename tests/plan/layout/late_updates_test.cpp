// Tests which gradients are deferred, at which updates they are applied, and the memory for them.
#include "plan/late_updates.hpp"

#include "plan/check/check.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(late_updates)

using namespace troupe::plan;

namespace {

shared_table matrices() {
  auto table = *chain_table({64 * 96, 4096, 5000}).get();
  table.parameters[0].shape = {64, 96};
  table.parameters[1].shape = {128, 32};
  return std::make_shared<const troupe::core::model_table>(table);
}

plan_options late(uint32_t ranks, uint32_t stage) {
  auto o = small_options(ranks, stage);
  o.updates.late = {.share = 0.1, .update_interval = 4, .select_interval = 8, .warm_up = 2};
  return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE(columns_are_chosen_and_gradients_land_at_fixed_updates) {
  const auto schedule = late(1, 1).updates.late;
  std::string story;
  for (uint64_t t = 1; t <= 12; ++t)
    story += schedule.whole(t) ? "w" : std::string(schedule.chooses(t) ? "c" : "-") + (schedule.lands(t) ? "L" : "");
  BOOST_TEST(story == "wwc---L----Lc-");  // updates 3 and 11 choose columns; 6 and 10 apply deferred gradients
}

// All gradients deferred under one choice of columns must be applied before the next choice.
BOOST_AUTO_TEST_CASE(all_gradients_have_landed_before_a_choice) {
  for (const uint64_t interval : {1U, 2U, 3U, 7U})
    for (const uint64_t choices : {1U, 2U, 5U})
      for (const uint64_t warm_up : {0U, 1U, 4U}) {
        BOOST_TEST_INFO_SCOPE("choices " << choices);
        BOOST_TEST_INFO_SCOPE("interval " << interval);
        BOOST_TEST_INFO_SCOPE("warm up " << warm_up);
        const troupe::plan::late_updates x{0.1, interval, interval * choices, warm_up};
        for (uint64_t t = warm_up + 2; t < 100; ++t)
          if (x.chooses(t)) BOOST_TEST(x.lands(t - 1));
      }
}

BOOST_AUTO_TEST_CASE(deferred_gradients_are_an_owner_of_their_own) {
  for (const uint32_t stage : {1U, 2U, 3U})
    for (const uint32_t ranks : {1U, 2U, 3U}) {
      BOOST_TEST_INFO_SCOPE("ranks " << ranks);
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      const auto o = late(ranks, stage);
      const auto plans = plans_of(matrices(), o);
      const auto ok = troupe::plan::check(plans);
      BOOST_TEST(ok.has_value(), (ok ? "" : ok.error().text));
      uint64_t elements = 0;
      for (const auto& p : plans) {
        uint64_t bytes = 0;
        for (uint32_t q = 0; q < 2; ++q) {
          const uint64_t own = p->own_states(q).count, columns = q == 0 ? 96 : 32;
          BOOST_TEST(defers(*p, q) == (own > 0));
          elements += own;
          if (own > 0) bytes += own * sizeof(float) + columns * 9;
        }
        BOOST_TEST(!defers(*p, 2));
        BOOST_TEST(p->memory.deferred == bytes);  // the slices of this model are whole blocks
      }
      BOOST_TEST(elements == 64U * 96 + 4096);
    }
}

BOOST_AUTO_TEST_CASE(a_choice_in_the_middle_of_an_interval_is_refused) {
  auto o = late(2, 3);
  o.updates.late.select_interval = 6;
  const auto proved = troupe::plan::check(plans_of(matrices(), o));
  BOOST_REQUIRE(!proved.has_value());
  BOOST_TEST(proved.error().text.find("chosen anew while gradients of the old choice are deferred") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
