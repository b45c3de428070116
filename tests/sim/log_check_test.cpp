// Tests the checker of simulation logs: it refuses a correct log into which the test has introduced one error.
#include "tests/sim/world.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

struct fixture {
  fixture() {
    for (int which = 0; which < 3; ++which)
      plans.push_back(plan::plans_of(plan::chain_table({3000, 6000, 3000}), plan::small_options(2, 3, 2)));
    auto did = simulate(plans, {plan::plan_choice::train}, sim_options{});
    BOOST_REQUIRE_MESSAGE(did.has_value(), (did ? "" : did.error().text));
    result = std::move(*did);
    BOOST_REQUIRE(check_log(plans, result, window_instructions));
  }

  std::string refusal(uint32_t window = window_instructions) const {
    auto ok = check_log(plans, result, window);
    return ok ? "" : ok.error().text;
  }
  size_t index_of(uint32_t rank, uint32_t id, bool end) const {
    const auto it = std::find_if(result.log.begin(), result.log.end(),
                                 [&](const auto& e) { return e.rank == rank && e.id == id && e.end == end; });
    BOOST_REQUIRE(it != result.log.end());
    return static_cast<size_t>(it - result.log.begin());
  }
  void move(size_t from, size_t to) {
    const auto e = result.log[from];
    result.log.erase(result.log.begin() + static_cast<long>(from));
    result.log.insert(result.log.begin() + static_cast<long>(to), e);
  }
  /// Returns the first instruction of rank 0 in `lane` for which `wanted` returns true.
  const plan::instruction& find(plan::lane lane, auto wanted) const {
    for (uint32_t id : plans[0][0]->lanes[static_cast<size_t>(lane)])
      if (wanted(plans[0][0]->instructions[id])) return plans[0][0]->instructions[id];
    BOOST_FAIL("no such instruction");
    std::abort();
  }

  std::vector<shared_rank_plans> plans;
  sim_result result;
};

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(log_check, fixture)

BOOST_AUTO_TEST_CASE(an_instruction_that_never_ended_is_seen) {
  const auto& x = find(plan::lane::shard, [&](const auto& y) {
    return y.id == plans[0][0]->lanes[static_cast<size_t>(plan::lane::shard)].back();
  });
  result.log.erase(result.log.begin() + static_cast<long>(index_of(0, x.id, true)));
  BOOST_TEST(says(refusal(), "never ended"), refusal());
}

BOOST_AUTO_TEST_CASE(an_instruction_that_ran_twice_is_seen) {
  result.log.push_back(result.log[index_of(1, plans[0][1]->lanes[1].front(), false)]);
  BOOST_TEST(says(refusal(), "started twice"), refusal());
}

BOOST_AUTO_TEST_CASE(a_start_before_a_dependency_has_ended_is_seen) {
  const auto& forward = find(plan::lane::compute, [&](const auto& y) {
    return std::any_of(y.after.begin(), y.after.end(),
                       [&](uint32_t on) { return plans[0][0]->instructions[on].kind == plan::kind::gather; });
  });
  uint32_t gather = 0;
  for (uint32_t on : forward.after)
    if (plans[0][0]->instructions[on].kind == plan::kind::gather) gather = on;
  move(index_of(0, forward.id, false), index_of(0, gather, true));
  BOOST_TEST(says(refusal(), "before gather"), refusal());
}

BOOST_AUTO_TEST_CASE(a_lane_that_changes_its_order_is_seen) {
  const auto& fabric = plans[0][0]->lanes[static_cast<size_t>(plan::lane::fabric)];
  std::swap(result.log[index_of(0, fabric[0], false)].id, result.log[index_of(0, fabric[1], false)].id);
  BOOST_TEST(says(refusal(), "out of its lane's order"), refusal());
}

BOOST_AUTO_TEST_CASE(a_collective_that_ends_before_all_have_started_it_is_seen) {
  const auto& last =
      find(plan::lane::fabric, [&](const auto& y) { return y.sequence + 1 == plans[0][0]->num_collectives[0]; });
  const uint32_t late = index_of(0, last.id, false) < index_of(1, last.id, false) ? 1 : 0;
  move(index_of(1 - late, last.id, true), index_of(late, last.id, false));
  BOOST_TEST(says(refusal(), "before all had started it"), refusal());
}

BOOST_AUTO_TEST_CASE(two_instructions_of_the_compute_lane_at_once_are_seen) {
  const auto& compute = plans[0][0]->lanes[static_cast<size_t>(plan::lane::compute)];
  for (size_t i = 0; i + 1 < compute.size(); ++i) {
    const auto& next = plans[0][0]->instructions[compute[i + 1]];
    if (std::find(next.after.begin(), next.after.end(), compute[i]) != next.after.end()) continue;
    // Only the lane orders these two instructions, so if the first ends after the second starts, no other rule is
    // broken.
    move(index_of(0, compute[i], true), index_of(0, compute[i + 1], false));
    BOOST_TEST(says(refusal(), "before its predecessor had ended"), refusal());
    return;
  }
  BOOST_FAIL("every compute instruction waits for its predecessor");
}

BOOST_AUTO_TEST_CASE(a_lane_beyond_its_window_is_seen) {
  BOOST_TEST(says(refusal(1), "beyond the window"), refusal(1));
}

BOOST_AUTO_TEST_SUITE_END()
