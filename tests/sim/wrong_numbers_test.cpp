// Checks that the simulation refuses meaningless plans, orders and options with an error.
#include <limits>

#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(wrong_numbers)

using namespace troupe;
using namespace troupe::actors;

namespace {

using plan::plan_choice;

std::vector<shared_rank_plans> two_ranks() {
  return {plan::plans_of(plan::chain_table({3000, 6000, 3000}), plan::small_options(2, 3, 2))};
}

void refused(const auto& r, const std::string& text) {
  BOOST_TEST_REQUIRE(!r.has_value(), text);
  BOOST_TEST((r.error().kind == core::error_kind::bad_input));
  BOOST_TEST(r.error().text.find(text) != std::string::npos, r.error().text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(plans_and_orders_that_there_are_not_are_refused) {
  const auto whole = two_ranks();
  const std::vector<plan_choice> train{plan_choice::train};
  refused(simulate({}, train, {}), "orders of kinds that have plans, got kind 0");
  refused(simulate(whole, {}, {}), "at least one order");
  refused(simulate(whole, {plan_choice::save}, {}), "got kind 4");
  refused(simulate(whole, {static_cast<plan_choice>(200)}, {}), "got kind 200");
  refused(simulate(std::vector<shared_rank_plans>(6, whole[0]), train, {}), "plans of 5 kinds at most, got 6");
  auto changed = whole;
  changed[0][1] = nullptr;
  refused(simulate(changed, train, {}), "kind 0, rank 1: got none");
  changed = whole;
  changed[0].pop_back();
  refused(simulate(changed, train, {}), "the plans of all ranks of one job");
  changed = whole;
  std::swap(changed[0][0], changed[0][1]);
  refused(simulate(changed, train, {}), "in their order, kind 0, rank 0: got that of rank 1 of 2");
  BOOST_TEST((draw_fault(1, whole, {}, std::chrono::milliseconds(50)).kind == sim_fault_kind::none));
  BOOST_TEST((draw_fault(1, {}, train, std::chrono::milliseconds(50)).kind == sim_fault_kind::none));
  BOOST_TEST((draw_fault(1, changed, train, std::chrono::milliseconds(50)).kind == sim_fault_kind::none));
}

BOOST_AUTO_TEST_CASE(options_that_no_world_has_are_refused) {
  const auto whole = two_ranks();
  const auto with = [&](const auto& change) {
    sim_options o;
    change(o);
    return simulate(whole, {plan_choice::train}, o);
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  refused(with([](sim_options& o) { o.noise = nan; }), "a noise of at least 0");
  refused(with([](sim_options& o) { o.noise = -1; }), "a noise of at least 0, got -1");
  refused(with([](sim_options& o) { o.link.bytes_per_second = 0; }), "more than 0 bytes a second");
  refused(with([](sim_options& o) { o.link.latency_us = nan; }), "a latency of at least 0 us");
  refused(with([](sim_options& o) { o.stall_after = std::chrono::nanoseconds(0); }), "a limit of silence above 0 ns");
  refused(with([](sim_options& o) { o.latency_max = std::chrono::nanoseconds(-1); }), "times of at least 0 ns");
  refused(with([](sim_options& o) { o.window = 0; }), "a window of at least one instruction");
  refused(with([](sim_options& o) { o.fault.rank = 2; }), "a fault of one of 2 ranks");
  refused(with([](sim_options& o) { o.fault.lane = static_cast<plan::lane>(99); }), "a fault of one of 2 ranks");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  refused(with([](sim_options& o) { o.fault.factor = nan; }), "with a factor above 0");
  refused(with([](sim_options& o) { o.fault.factor = infinity; }), "with a factor above 0");
  for (double plan::cost_model::*rate : {&plan::cost_model::flops_per_s, &plan::cost_model::copy_bytes_per_s,
                                         &plan::cost_model::disk_bytes_per_s, &plan::cost_model::disk_read_bytes_per_s})
    for (const double value : {0.0, -1.0, nan})
      refused(with([&](sim_options& o) { o.costs.*rate = value; }), "costs with rates above 0");
  for (double plan::cost_model::*latency : {&plan::cost_model::disk_latency_s, &plan::cost_model::latency_s})
    for (const double value : {-1.0, nan, infinity})
      refused(with([&](sim_options& o) { o.costs.*latency = value; }), "costs with latencies of at least 0 s");
  refused(with([](sim_options& o) { o.costs.device_bytes_per_s = 1e12; }), "of the device and of its link");
  refused(with([](sim_options& o) { o.costs.device_bytes_per_s = nan; }), "of the device and of its link");
}

BOOST_AUTO_TEST_CASE(a_world_whose_first_kind_has_no_plans_runs) {
  const auto whole = two_ranks();
  const auto did = simulate({{}, whole[0]}, {plan_choice::evaluate}, {});
  BOOST_TEST_REQUIRE(did.has_value(), (did ? "" : did.error().text));
  refused(check_log({}, *did, window_instructions), "the plans of its kind, 1");
  refused(check_ending({}, {}, 1), "at least one that has ended");
}

BOOST_AUTO_TEST_SUITE_END()
