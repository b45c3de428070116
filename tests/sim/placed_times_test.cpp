// Tests the times and bytes of a job's collectives on a network: kinds and directions by hand, groups that share links,
// and the same run folded and unfolded.
#include "sim/placed_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fabric/layout.hpp"
#include "job/step/collective_form.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/communicators.hpp"
#include "sim/fold.hpp"
#include "sim/network/collective_time.hpp"
#include "sim/world.hpp"
#include "tests/plan/pipeline_samples.hpp"
#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(placed_times)

using namespace troupe;
using fabric::operation;

namespace {

/// Returns the network of `nodes` nodes of `devices` devices, with rates in bytes a second.
sim::network two_levels(uint32_t nodes, uint32_t devices, double inside, double between) {
  const auto out = sim::parse_network(
      fmt::format(
          "kind: network\nnodes: [{{name: node, count: {}, devices: {}, switches: [{{name: hub}}]}}]\n"
          "switches: [{{name: spine}}]\nlinks:\n"
          "  - {{from: node(n).device(d), to: node(n).hub, bandwidth_bytes_per_s: {}, latency_s: 1.0e-6, "
          "direction: both}}\n"
          "  - {{from: node(n).hub, to: spine, bandwidth_bytes_per_s: {}, latency_s: 2.0e-6, direction: both}}\n",
          nodes, devices, inside, between),
      "net.yaml");
  BOOST_TEST_REQUIRE(out.has_value(), (out ? std::string() : out.error().text));
  return *out;
}

std::vector<uint32_t> in_order(uint32_t ranks) {
  std::vector<uint32_t> out(ranks);
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

/// Returns plans for training steps of data ranks that divide their states evenly.
std::vector<actors::shared_rank_plans> data_plans(uint32_t ranks, uint32_t stage) {
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  out[static_cast<size_t>(plan::plan_choice::train)] = plan::plans_of(
      plan::chain_table({16 * core::partition_grain, 32 * core::partition_grain, 16 * core::partition_grain}),
      plan::small_options(ranks, stage, 2));
  return out;
}

/// Returns plans for training steps of two pipeline stages with two data ranks each.
std::vector<actors::shared_rank_plans> piped_plans() {
  plan::table_writer table;
  for (int i = 0; i < 6; ++i) table.unit({{table.parameter(16 * core::partition_grain)}});
  std::mt19937_64 random(1);
  table.random_inputs(random);
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  out[static_cast<size_t>(plan::plan_choice::train)] =
      plan::plans_of(table.done(), plan::options_of_pipeline("1f1b", 2, 1, 1));
  return out;
}

sim::placed_times computed(const sim::network& on, const std::vector<actors::shared_rank_plans>& plans) {
  const auto ranks = static_cast<uint32_t>(plans[static_cast<size_t>(plan::plan_choice::train)].size());
  const auto out = sim::times_on(on, in_order(ranks), plans, plan::plan_choice::train);
  BOOST_TEST_REQUIRE(out.has_value(), (out ? std::string() : out.error().text));
  return *out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_collective_takes_the_time_of_its_kind_and_bytes) {
  const auto on = two_levels(2, 2, 1e9, 1e9);
  std::map<operation, size_t> seen;
  for (const uint32_t stage : {0U, 1U, 3U}) {
    const auto plans = data_plans(4, stage);
    const auto times = computed(on, plans);
    const plan::rank_plan& p = *plans[static_cast<size_t>(plan::plan_choice::train)].front();
    const auto pieces = job::pieces_of(p);
    const std::vector<sim::device_group> groups = {{0, 1, 2, 3}};
    sim::network_routes routes(on);
    BOOST_TEST(p.layout->communicators.size() == 1U);
    for (const uint32_t id : p.lanes[static_cast<size_t>(plan::lane::fabric)]) {
      const auto& x = p.instructions[id];
      if (x.kind != plan::kind::gather && x.kind != plan::kind::reduce) continue;
      auto r = job::collective_form(p, x);
      r.pieces = pieces[x.communicator][x.sequence];
      // A rank receives what it does not have, if the four ranks divide the vector evenly.
      const bool is_gather = r.op == operation::all_gather;
      const auto bytes =
          double(fabric::elements_of(r.pieces) * core::size_of(is_gather ? r.input_type : r.communication));
      if (double(fabric::received_bytes(r, 4)) != (r.op == operation::all_reduce ? 2 : 1) * bytes * 3 / 4) continue;
      const auto kind = is_gather                       ? sim::collective_kind::all_gather
                        : r.op == operation::all_reduce ? sim::collective_kind::all_reduce
                                                        : sim::collective_kind::reduce_scatter;
      const auto alone = sim::time_of(kind, bytes, groups, routes);
      BOOST_TEST_REQUIRE(alone.has_value());
      const int64_t ns = fabric::duration_ns(times.curves[x.communicator], r, 4);
      BOOST_TEST(std::abs(double(ns) - 1e9 * alone->seconds) <= 0.5 + 1e-6, p.describe(id));
      ++seen[r.op];
    }
  }
  for (const operation op : {operation::all_gather, operation::reduce_scatter, operation::all_reduce})
    BOOST_TEST(seen[op] > 0U, fabric::name_of(op));
}

BOOST_AUTO_TEST_CASE(links_carry_what_members_receive) {
  const auto on = two_levels(2, 1, 1e9, 1e9);
  const auto plans = data_plans(2, 3);
  const auto times = computed(on, plans);
  const plan::rank_plan& p = *plans[static_cast<size_t>(plan::plan_choice::train)].front();
  const auto pieces = job::pieces_of(p);
  double received = 0;
  for (const uint32_t id : p.lanes[static_cast<size_t>(plan::lane::fabric)]) {
    const auto& x = p.instructions[id];
    auto r = job::collective_form(p, x);
    r.pieces = pieces[x.communicator][x.sequence];
    received += double(fabric::received_bytes(r, 2));
  }
  BOOST_TEST(received > 0);
  // Each of two members sends what the other one receives, over every link between them.
  for (const double bytes : times.link_bytes) BOOST_TEST(bytes == received, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(transfers_of_all_columns_share_the_link_between_stages) {
  const auto on = two_levels(2, 2, 1e9, 1e9);  // one stage a node
  const auto plans = piped_plans();
  const auto times = computed(on, plans);
  const auto& layout = *plans[static_cast<size_t>(plan::plan_choice::train)].front()->layout;
  std::map<std::string, std::vector<uint32_t>> found;  // communicators by the first word of their names
  for (uint32_t c = 0; c < layout.communicators.size(); ++c) {
    const std::string& name = layout.communicators[c].name;
    if (name.find(" between stages ") != std::string::npos) found[name.substr(0, name.find(' '))].push_back(c);
  }
  for (const char* what : {"activations", "gradients"}) {
    BOOST_TEST_REQUIRE(found[what].size() == 2U, what);
    for (const uint32_t c : found[what]) {
      BOOST_TEST(plan::at_once(layout, c) == found[what].front());
      BOOST_TEST_REQUIRE(times.curves[c].contains(operation::send_receive));
      const auto& points = times.curves[c].at(operation::send_receive).points();
      BOOST_TEST(points.size() > 1U);
      // Two columns share 1 GB/s; four links take 6 us.
      for (const auto& [bytes, ns] : points) BOOST_TEST(ns == static_cast<int64_t>(2 * bytes + 6000));
    }
  }
  for (uint32_t c = 0; c < layout.communicators.size(); ++c)
    if (layout.communicators[c].name.starts_with("data")) BOOST_TEST(plan::at_once(layout, c) == c);
}

BOOST_AUTO_TEST_CASE(another_topology_has_another_step_and_a_faster_link_never_a_longer_one) {
  for (const uint32_t stage : {0U, 3U}) {
    const auto plans = data_plans(4, stage);
    const auto step_s = [&](const sim::network& on) {
      sim::world_options options;
      options.placed_on = std::make_shared<const sim::network>(on);
      options.latency_max = std::chrono::nanoseconds(0);
      return sim::world(plans, options).run().step_s().value();
    };
    const double usual = step_s(two_levels(2, 2, 1e9, 1e8));
    BOOST_TEST(step_s(two_levels(2, 2, 1e9, 1e7)) > usual);
    BOOST_TEST(step_s(two_levels(2, 2, 1e9, 1e9)) < usual);
    BOOST_TEST(step_s(two_levels(2, 2, 2e9, 1e8)) <= usual * 1.001);
    BOOST_TEST(step_s(two_levels(4, 1, 1e9, 1e8)) != usual);
    BOOST_TEST(step_s(two_levels(1, 4, 1e9, 1e8)) < usual);
  }
}

BOOST_AUTO_TEST_CASE(a_slow_node_sets_its_ranks_apart) {
  const auto on = [](double slow_bytes_per_s) {
    const auto out = sim::parse_network(
        fmt::format(
            "kind: network\nnodes:\n  - {{name: quick, count: 3, devices: 4, switches: [{{name: hub}}]}}\n"
            "  - {{name: tardy, devices: 4, switches: [{{name: hub}}]}}\nswitches: [{{name: spine}}]\nlinks:\n"
            "  - {{from: quick(n).device(d), to: quick(n).hub, bandwidth_bytes_per_s: 1.0e+9, latency_s: 0, "
            "direction: both}}\n"
            "  - {{from: tardy.device(d), to: tardy.hub, bandwidth_bytes_per_s: {}, latency_s: 0, "
            "direction: both}}\n"
            "  - {{from: quick(n).hub, to: spine, bandwidth_bytes_per_s: 1.0e+9, latency_s: 0, direction: both}}\n"
            "  - {{from: tardy.hub, to: spine, bandwidth_bytes_per_s: 1.0e+9, latency_s: 0, direction: both}}\n",
            slow_bytes_per_s),
        "net.yaml");
    BOOST_TEST_REQUIRE(out.has_value(), (out ? std::string() : out.error().text));
    sim::world_options options;
    options.placed_on = std::make_shared<const sim::network>(*out);
    options.fold = true;
    auto of_job = plan::small_options(16, 3, 2);
    of_job.gathering.near = 4;  // second copies of parameters in each node
    std::vector<actors::shared_rank_plans> plans(plan::num_plan_choices);
    plans[static_cast<size_t>(plan::plan_choice::train)] = plan::plans_of(
        plan::chain_table({16 * core::partition_grain, 32 * core::partition_grain, 16 * core::partition_grain}),
        of_job);
    return sim::world(std::move(plans), options);
  };
  const auto even = on(1e9), uneven = on(1e7);
  BOOST_TEST_REQUIRE(even.acted_by().size() == 16U);
  BOOST_TEST_REQUIRE(uneven.acted_by().size() == 16U);
  BOOST_TEST(sim::num_acting(even.acted_by()) < sim::num_acting(uneven.acted_by()));
  for (uint32_t r = 12; r < 16; ++r) BOOST_TEST(uneven.acted_by()[r] >= 12U);  // no rank of a quick node acts for them
  for (uint32_t r = 0; r < 12; ++r) BOOST_TEST(uneven.acted_by()[r] < 12U);
  BOOST_TEST(uneven.run().step_s() > even.run().step_s().value());
}

BOOST_AUTO_TEST_CASE(a_network_that_takes_for_ever_is_refused) {
  const auto plans = data_plans(2, 3);
  const auto out = sim::times_on(two_levels(2, 1, 1e-9, 1), in_order(2), plans, plan::plan_choice::train);
  BOOST_TEST_REQUIRE(!out.has_value());
  BOOST_TEST(out.error().text.find("a network: wanted collectives of at most 1e+06 s, got ") == 0U, out.error().text);
}

BOOST_AUTO_TEST_SUITE_END()
