// Checks that the replay detects misused bytes: if one instruction of a correct log starts or ends at another time, the
// replay returns an error that names it.
#include "tests/sim/replay.hpp"

#include "tests/sim/world.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

struct fixture {
  fixture() {
    plans = plan::plans_of(plan::chain_table({3000, 6000, 3000}), plan::small_options(2, 3, 2));
    auto did = simulate({plans}, {plan::plan_choice::train}, sim_options{});
    BOOST_REQUIRE_MESSAGE(did.has_value(), (did ? "" : did.error().text));
    result = std::move(*did);
    auto meant = replay(plans, result, 0);
    BOOST_REQUIRE_MESSAGE(meant.has_value(), (meant ? "" : meant.error().text));
    right = std::move(*meant);
  }

  [[nodiscard]] std::string refusal() const {
    const auto found = replay(plans, result, 0, right);
    return found ? "" : found.error().text;
  }
  std::vector<sim_event>::iterator event(uint32_t rank, uint32_t id, bool end) {
    return std::ranges::find_if(result.log,
                                [&](const sim_event& e) { return e.rank == rank && e.id == id && e.end == end; });
  }
  /// Returns the first instruction of kind `k` on rank 0.
  [[nodiscard]] uint32_t first(plan::kind k) const {
    return std::ranges::find(plans[0]->instructions, k, &plan::instruction::kind)->id;
  }
  /// Moves an event of the log to the position directly before another one.
  void put_before(std::vector<sim_event>::iterator what, std::vector<sim_event>::iterator where) {
    if (what < where)
      std::rotate(what, what + 1, where);
    else
      std::rotate(where, what, what + 1);
  }

  shared_rank_plans plans;
  sim_result result;
  meaning right;
};

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(replay, fixture)

BOOST_AUTO_TEST_CASE(a_run_that_is_right_means_the_same_twice) { BOOST_TEST(refusal() == ""); }

BOOST_AUTO_TEST_CASE(a_forward_before_its_gather_is_seen) {
  const uint32_t forward = first(plan::kind::forward), gather = first(plan::kind::gather);
  put_before(event(0, forward, false), event(0, gather, false));
  BOOST_TEST(says(refusal(), "rank 0: forward unit 0, micro 0"), refusal());
  BOOST_TEST(says(refusal(), "reads bytes that nothing has written"), refusal());
}

BOOST_AUTO_TEST_CASE(a_forward_while_its_gather_moves_is_seen) {
  const uint32_t forward = first(plan::kind::forward), gather = first(plan::kind::gather);
  put_before(event(0, forward, false), std::min(event(0, gather, true), event(1, gather, true)));
  BOOST_TEST(says(refusal(), "still writes"), refusal());
}

BOOST_AUTO_TEST_CASE(a_release_under_a_forward_is_seen) {
  const auto& all = plans[0]->instructions;
  const uint32_t release = first(plan::kind::release);
  uint32_t reader = release;
  do --reader;
  while (all[reader].lane != plan::lane::compute || all[reader].slots.parameters != all[release].slots.parameters);
  put_before(event(0, release, false), event(0, reader, true));
  BOOST_TEST(says(refusal(), "rank 0: release unit "), refusal());
  BOOST_TEST(says(refusal(), "still reads"), refusal());
}

BOOST_AUTO_TEST_CASE(a_backward_after_its_reduction_computes_nothing_that_is_wanted) {
  const uint32_t backward = first(plan::kind::backward), reduce = first(plan::kind::reduce);
  put_before(event(0, backward, true), event(0, reduce, true) + 1);
  put_before(event(0, backward, false), event(0, backward, true));
  BOOST_TEST(refusal() != "");
}

BOOST_AUTO_TEST_CASE(an_update_while_another_rank_gathers_its_slices_is_seen) {
  const uint32_t update = first(plan::kind::update);
  const auto gather = std::ranges::find_if(result.log, [&](const sim_event& e) {
    return e.end && plans[e.rank]->instructions[e.id].kind == plan::kind::gather && e.id > first(plan::kind::forward);
  });
  put_before(event(0, update, false), gather);
  BOOST_TEST(says(refusal(), "rank 0: update sub-group 0"), refusal());
}

BOOST_AUTO_TEST_SUITE_END()
