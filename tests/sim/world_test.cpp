// Tests simulated worlds with real plans: the answers about their runs, every fault, and the refusal of what a world
// does not have.
#include "sim/world.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/load.hpp"
#include "plan/choose/cost.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(world)

using namespace troupe;
using namespace std::chrono_literals;

namespace {

constexpr auto train = plan::plan_choice::train, train_saving = plan::plan_choice::train_saving;

/// Returns plans of three ranks that train, and that save while they train: ZeRO-3, two micro-batches, four units of
/// one segment.
std::vector<actors::shared_rank_plans> sharded_plans() {
  const auto table = plan::chain_table({3000, 6000, 6000, 3000});
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  for (const auto which : {train, train_saving}) {
    auto options = plan::small_options(3, 3, 2);
    options.saving.on = plan::saves(which);
    out[static_cast<size_t>(which)] = plan::plans_of(table, options);
  }
  return out;
}

/// Returns plans of two ranks whose optimizer states are in files.
std::vector<actors::shared_rank_plans> swapping_plans() {
  auto options = plan::small_options(2, 3);
  options.tiers.optimizer = plan::tier::nvme;
  return {plan::plans_of(plan::chain_table({3000, 6000, 3000}), options)};
}

/// Returns options of a machine on which a segment takes 1 ms, which is longer than all else, and messages take no
/// time.
sim::world_options slow_cores() {
  sim::world_options out;
  plan::cost_model costs;
  costs.flops_per_s = 1e9;
  out.costs = costs;
  out.latency_max = 0ns;
  return out;
}

/// Returns a GPT-2 of two blocks as two stages of a pipeline, with four micro-batches.
std::shared_ptr<const config::job_config> two_stages(const std::string& pipeline = "2") {
  const std::string text =
      "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
      "data: {text: corpus.txt, sequence_length: 16}\n"
      "steps: 10\n"
      "train_micro_batch_size_per_gpu: 2\n"
      "gradient_accumulation_steps: 4\n"
      "parallel: {data: 1, pipeline: " +
      pipeline + "}\noptimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";
  auto loaded = config::load_text(text, "job.yaml", "/base");
  BOOST_TEST_REQUIRE(loaded.has_value(), (loaded ? std::string() : config::render(loaded.error())));
  return std::make_shared<const config::job_config>(std::move(loaded->config));
}

std::string refusal(const auto& make) {
  try {
    static_cast<void>(make());
  } catch (const sim::world_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_healthy_run_has_its_plans_orders_overlaps_and_memory) {
  const sim::world world(sharded_plans(), slow_cores());
  const auto run = world.run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.log().steps.size() == 2U);
  BOOST_TEST(run.starts("forward unit 1, micro 0").after("gather unit 1, micro 0, forward"));
  BOOST_TEST(run.ends("gather unit 2, micro 0, forward").before("forward unit 2, micro 0"));
  BOOST_TEST(run.starts("update").after("vote"));
  BOOST_TEST(!run.starts("update").before("vote"));
  BOOST_TEST(run.on(sim::rank{1})
                 .order({"forward unit 0, micro 0", "forward unit 3, micro 0", "backward unit 3, micro 0",
                         "backward unit 0, micro 0", "forward unit 0, micro 1"}));
  BOOST_TEST(run.starts("forward unit 0, micro 0").after("load, micro 0"));
  BOOST_TEST(run.idle(plan::lane::compute) < 0.2);
  BOOST_TEST(run.idle(plan::lane::io).value() == 1);
  const auto& p = *world.plans().front().front();
  BOOST_TEST(run.peak("activations").value() == double(p.memory.activations));
  BOOST_TEST(run.peak("moments").value() > 0);
  BOOST_TEST(run.peak("gathered parameters") > 0);
  BOOST_TEST(run.peak("gathered parameters") <= double(p.memory.gathered));
  BOOST_TEST(run.peak() <= double(p.memory.total()));
  // The compute lane works nearly all the time, and a step takes what its plan predicts.
  const double predicted_s = plan::predict(world.plans().front(), *slow_cores().costs).step_s;
  BOOST_TEST(run.step_s() > 0.9 * predicted_s);
  BOOST_TEST(run.step_s() < 1.1 * predicted_s);
}

BOOST_AUTO_TEST_CASE(a_configuration_is_a_world_whose_stages_are_compared_across_ranks) {
  const sim::world world(two_stages(), slow_cores());
  const auto run = world.run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.on(sim::rank{0}).starts("forward block 0 mlp, micro 2").after("forward block 0 attention, micro 2"));
  // Rank 0 has the first stage, rank 1 the second.
  BOOST_TEST(run.starts("forward block 1, micro 0").after("forward block 0, micro 0"));
  BOOST_TEST(run.starts("backward block 0, micro 3").after("backward block 1, micro 3"));
  BOOST_TEST(!run.starts("forward block 1, micro 0").after("forward block 0, micro 3"));
  BOOST_TEST(run.on(sim::rank{0}).idle(plan::lane::compute) > 0.05);  // the bubble
  const auto killed = world.with(sim::kill(sim::rank{1}).when("forward head, micro 1")).run();
  BOOST_TEST(killed.faults_happened());
  BOOST_TEST(killed.failed_with("rank 1"));
  BOOST_TEST(says(refusal([] { return sim::world(two_stages("9")); }), "parallel.pipeline"));
}

BOOST_AUTO_TEST_CASE(collectives_of_a_host_can_take_the_times_of_the_cost_model) {
  auto options = slow_cores();
  options.costs->copy_bytes_per_s = 1e6;  // a gather takes tens of milliseconds, and a link less than one
  options.within_host_by_costs = true;
  options.steps = {train, train_saving, train};
  const sim::world world(sharded_plans(), options);
  const auto run = world.run();
  BOOST_TEST(run.ended_well());
  size_t compared = 0;
  for (const auto& s : run.log().spans) {
    if (s.lane != plan::lane::fabric) continue;
    const auto& p = *world.plans()[static_cast<size_t>(options.steps[s.step - 1])][s.rank];
    const auto& x = p.instructions[s.id];
    if (!plan::acts(x.guard, plan::branch::not_skipped)) continue;
    BOOST_TEST_CONTEXT(p.describe(s.id)) {
      BOOST_TEST(std::abs(double(s.end_ns - s.moving_ns) / 1e9 - plan::predicted_seconds(p, x, *options.costs)) < 1e-5);
    }
    ++compared;
  }
  BOOST_TEST(compared > 50U);
  // Between hosts, links decide.
  options.ranks_per_host = 1;
  const auto apart = sim::world(sharded_plans(), options).run();
  for (const auto& s : apart.log().spans)
    if (s.lane == plan::lane::fabric) BOOST_TEST(s.end_ns - s.moving_ns < 1'000'000);
}

BOOST_AUTO_TEST_CASE(the_record_has_the_instructions_of_plans_and_the_moments_of_faults) {
  const sim::world world(sharded_plans(), slow_cores());
  const auto run = world.with(sim::freeze(sim::rank{1}, 5ms).at(2ms)).with(sim::kill(sim::rank{0}).at(1h)).run();
  const auto& h = run.log();
  for (const auto& s : h.spans) {
    const auto& p = *world.plans()[static_cast<size_t>(h.steps[s.step - 1].which)][s.rank];
    BOOST_TEST_REQUIRE(s.id < p.instructions.size());
    BOOST_TEST(p.describe(s.id) == h.names[s.name]);
  }
  BOOST_TEST_REQUIRE(h.faults.size() == 2U);
  BOOST_TEST(h.faults[0].at_ns >= h.steps.front().began_ns + 2'000'000);
  BOOST_TEST(h.faults[0].at_ns < h.steps.front().began_ns + 3'500'000);
  BOOST_TEST(h.faults[1].at_ns == sim::history::never);
  BOOST_TEST(!h.faults[1].happened);
  auto options = slow_cores();
  options.ranks_per_host = 1;
  const auto slow = sim::world(sharded_plans(), options).with(sim::slow(sim::link{0, 1}, 2)).run();
  BOOST_TEST(slow.log().faults.front().at_ns == slow.log().steps.front().began_ns);
}

BOOST_AUTO_TEST_CASE(swaps_overlap_and_wait_for_a_slow_disk) {
  const sim::world world(swapping_plans(), slow_cores());
  const auto run = world.run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.starts("update 0").after("swap_in states of sub-group 0"));
  BOOST_TEST(run.peak("windows onto swap files") > 0);
  const auto slow = world.with(sim::slow_disk(1000)).run();
  BOOST_TEST(slow.ended_well());
  BOOST_TEST(slow.faults_happened());
  BOOST_TEST(slow.step_s().value() > run.step_s().value() + 0.1);
}

BOOST_AUTO_TEST_CASE(the_same_seed_is_the_same_run_and_another_one_is_not) {
  auto options = slow_cores();
  options.noise = 0.5;
  const sim::world world(sharded_plans(), options);
  BOOST_TEST(sim::for_seeds(10, [&](uint64_t seed) {
    const auto first = world.run(seed), second = world.run(seed), other = world.run(seed + 1000);
    return first.step_s() == second.step_s() && first.schedule() == second.schedule() &&
           first.step_s() != other.step_s() && first.log().seed == seed;
  }));
}

BOOST_AUTO_TEST_CASE(a_killed_rank_is_named_whenever_it_is_killed) {
  const sim::world world(sharded_plans());
  const auto in_step = world.with(sim::kill(sim::rank{1}).in_step(2)).run();
  BOOST_TEST(in_step.failed_with("rank 1"));
  BOOST_TEST(in_step.log().steps.size() == 2U);
  BOOST_TEST(in_step.log().steps.front().failure == nullptr);
  const auto at_start = world.with(sim::kill(sim::rank{2}).when("backward unit 2").in_step(2)).run();
  BOOST_TEST(at_start.failed_with("rank 2"));
  BOOST_TEST(at_start.in_step(2).on(sim::rank{2}).starts("backward unit 2").after("forward unit 2, micro 0"));
  const auto at_once = world.with(sim::kill(sim::rank{0}).at(0ns)).run();
  BOOST_TEST(at_once.failed_with("rank 0"));
  BOOST_TEST(at_once.log().steps.size() == 1U);
  for (const auto& run : {in_step, at_start, at_once}) BOOST_TEST(run.faults_happened());
}

BOOST_AUTO_TEST_CASE(several_faults_happen_in_one_run) {
  auto options = slow_cores();
  options.ranks_per_host = 1;
  options.steps = {train, train, train};
  const sim::world world(sharded_plans(), options);
  const double usual_s = world.run().step_s().value();
  const auto run = world.with(sim::slow("forward unit 1", 10).on(sim::rank{0}).in_step(1))
                       .with(sim::freeze(sim::rank{2}, 50ms).in_step(2))
                       .with(sim::kill(sim::host{1}).in_step(3))
                       .run();
  BOOST_TEST(run.faults_happened());
  BOOST_TEST(run.in_step(1).step_s() > usual_s + 0.017);  // two micro-batches, each 9 ms longer
  BOOST_TEST(run.in_step(2).step_s() > 0.05);
  BOOST_TEST(run.in_step(2).step_s() < usual_s + 0.055);
  BOOST_TEST(run.failed_with("rank 1"));
}

BOOST_AUTO_TEST_CASE(slow_and_late_parts_cost_what_they_should) {
  auto options = slow_cores();
  options.ranks_per_host = 1;
  const sim::world world(sharded_plans(), options);
  const double usual_s = world.run().step_s().value();
  BOOST_TEST(world.with(sim::slow(sim::rank{1}, 3)).run().step_s() > 2.5 * usual_s);
  BOOST_TEST(world.with(sim::slow(sim::host{2}, 3).in_step(1)).run().in_step(1).step_s() > 2.5 * usual_s);
  BOOST_TEST(world.with(sim::slow(sim::host{2}, 3).in_step(1)).run().in_step(2).step_s() < 1.1 * usual_s);
  const auto late = world.with(sim::late("backward unit 2", 5ms).on(sim::rank{0})).run();
  BOOST_TEST(late.step_s() > usual_s + 0.009);
  BOOST_TEST(late.step_s() < usual_s + 0.012);
  BOOST_TEST(world.with(sim::late(sim::link{0, 2}, 2ms)).run().step_s() > usual_s + 0.004);
  BOOST_TEST(world.with(sim::slow(sim::link{0, 1}, 100)).run().step_s() > usual_s + 0.004);
  BOOST_TEST(world.with(sim::late_message(1ms)).run().ended_well());
}

BOOST_AUTO_TEST_CASE(a_lost_instruction_is_named_and_a_full_disk_is_said_to_be_full) {
  auto options = slow_cores();
  options.steps = {train, train_saving};
  const sim::world world(sharded_plans(), options);
  for (const char* name : {"forward unit 1", "gather unit 1"}) {
    const auto lost = world.with(sim::lose(name).on(sim::rank{1}).in_step(2)).run();
    BOOST_TEST(lost.faults_happened());
    BOOST_TEST(lost.failed_with("rank 1"));
    BOOST_TEST((lost.log().steps.back().failure->kind == core::error_kind::stalled));
  }
  const auto full = world.with(sim::full_disk(sim::rank{2})).run();
  BOOST_TEST(full.faults_happened());
  BOOST_TEST(full.failed_with("the disk of rank 2 is full"));
  BOOST_TEST((full.log().steps.back().failure->kind == core::error_kind::no_space));
  const auto frozen = world.with(sim::freeze_disk(80ms).in_step(2)).run();
  BOOST_TEST(frozen.ended_well());
  BOOST_TEST(frozen.faults_happened());
}

BOOST_AUTO_TEST_CASE(a_cut_link_makes_steps_wait_and_is_a_stall_if_it_stays_cut) {
  auto options = slow_cores();
  options.ranks_per_host = 1;
  options.stall_after = options.work_min = 200ms;
  const sim::world world(sharded_plans(), options);
  const double usual_s = world.run().step_s().value();
  const auto in_step = world.with(sim::cut(sim::link{0, 1}, 50ms).in_step(2)).run();
  BOOST_TEST(in_step.ended_well());
  BOOST_TEST(in_step.faults_happened());
  BOOST_TEST(in_step.in_step(1).step_s() < usual_s + 0.001);
  BOOST_TEST(in_step.in_step(2).step_s() > usual_s + 0.045);
  BOOST_TEST(in_step.in_step(2).step_s() < usual_s + 0.06);
  // A cut at a time keeps collectives that are moving bytes.
  const auto at_time = world.with(sim::cut(sim::link{1, 2}, 50ms).at(5ms)).run();
  BOOST_TEST(at_time.ended_well());
  BOOST_TEST(at_time.in_step(1).step_s() > usual_s + 0.03);
  const auto for_good = world.with(sim::cut(sim::link{0, 1}).in_step(2)).run();
  BOOST_TEST(for_good.faults_happened());
  BOOST_TEST(for_good.failed_with("rank"));
  BOOST_TEST((for_good.log().steps.back().failure->kind == core::error_kind::stalled));
}

BOOST_AUTO_TEST_CASE(a_network_decides_the_links_and_the_hosts) {
  const auto on = [](int devices, double bytes_per_s, const std::string& oversubscription) {
    const auto read = sim::parse_network(
        fmt::format("kind: network\nnodes: [{{name: node, count: 3, devices: {}, switches: [{{name: hub{}}}]}}]\n"
                    "switches: [{{name: spine}}]\nlinks:\n"
                    "  - {{from: node(n).device(d), to: node(n).hub, bandwidth_bytes_per_s: {}, latency_s: 1.0e-6, "
                    "direction: both}}\n"
                    "  - {{from: node(n).hub, to: spine, bandwidth_bytes_per_s: 1.0e+10, latency_s: 1.0e-6, "
                    "direction: both}}\n",
                    devices, oversubscription, bytes_per_s),
        "net.yaml");
    BOOST_TEST_REQUIRE(read.has_value(), (read ? std::string() : read.error().text));
    auto options = slow_cores();
    options.placed_on = std::make_shared<const sim::network>(*read);
    return sim::world(sharded_plans(), options);
  };
  const auto fast = on(1, 1e10, ""), slow = on(1, 1e6, ""), uplink = on(1, 1e10, ", oversubscription: 1000");
  const double fast_s = fast.run().step_s().value();
  BOOST_TEST(fast.run().ended_well());
  BOOST_TEST(slow.run().step_s() > 1.5 * fast_s);
  BOOST_TEST(uplink.run().step_s() > fast_s);
  // Three devices of one node do not use the uplink.
  BOOST_TEST(on(3, 1e10, ", oversubscription: 1000").run().step_s() <= fast_s);
  // The nodes are the hosts.
  const auto killed = fast.with(sim::kill(sim::host{1}).in_step(2)).run();
  BOOST_TEST(killed.failed_with("rank 1"));
  BOOST_TEST(says(refusal([&] { return fast.with(sim::kill(sim::host{3})); }), "wanted one of 3 hosts, got host 3"));
  BOOST_TEST(says(refusal([&] {
                    return on(3, 1e10, "").with(sim::slow(sim::link{0, 1}, 2));
                  }),
                  "wanted one of 1 hosts, got host 1"));
  BOOST_TEST(fast.with(sim::slow(sim::link{0, 1}, 1000)).run().step_s() > fast_s);
  auto options = slow_cores();
  options.placed_on = std::make_shared<const sim::network>(
      *sim::parse_network("kind: network\nnodes: [{name: box, devices: 1}]\n", "net.yaml"));
  BOOST_TEST(says(refusal([&] { return sim::world(sharded_plans(), options); }),
                  "the network: wanted a device for each of 3 ranks, got 1 devices"));
  options.ranks_per_host = 1;
  BOOST_TEST(says(refusal([&] { return sim::world(sharded_plans(), options); }),
                  "placed_on cannot be combined with ranks_per_host"));
}

BOOST_AUTO_TEST_CASE(every_seed_with_a_fault_ends_as_the_fault_demands) {
  auto options = slow_cores();
  options.noise = 1;
  options.latency_max = 80us;
  const sim::world world = sim::world(sharded_plans(), options).with(sim::kill(sim::rank{1}).when("reduce"));
  BOOST_TEST(sim::for_seeds(30, [&](uint64_t seed) {
    const auto run = world.run(seed);
    return run.faults_happened() && run.failed_with("rank 1");
  }));
}

BOOST_AUTO_TEST_CASE(what_a_world_does_not_have_is_refused_by_name) {
  auto options = slow_cores();
  options.ranks_per_host = 2;
  const sim::world world(sharded_plans(), options);
  const auto refused = [&](const sim::fault& f) { return refusal([&] { return world.with(f); }); };
  const std::pair<sim::fault, const char*> wrong[] = {
      {sim::kill(sim::rank{3}), "fault kill rank 3: wanted one of 3 ranks, got rank 3"},
      {sim::kill(sim::host{2}), "wanted one of 2 hosts (ranks_per_host), got host 2"},
      {sim::kill(sim::rank{0}).in_step(3), "wanted one of the steps 1 to 2, got 3"},
      {sim::kill(sim::rank{0}).in_step(0), "wanted one of the steps 1 to 2, got 0"},
      {sim::kill(sim::rank{0}).at(-1ns), "wanted times of at least 0"},
      {sim::kill(sim::rank{0}).at(1ns).in_step(1), "at() cannot be combined with another moment"},
      {sim::kill(sim::rank{0}).on(sim::rank{1}), "on() is for faults that name an instruction"},
      {sim::kill(sim::host{0}).when("forward"), "when() is for killing and freezing a rank"},
      {sim::kill(sim::rank{0}).when("forwrd unit 1"), "the nearest one is 'forward unit 1'"},
      {sim::kill(sim::rank{0}).when("load"), "'load, micro 0' is on the control lane, whose times the log lacks"},
      {sim::slow("gather", 2), "a collective takes the time of its link"},
      {sim::slow("load", 2), "which does no work"},
      {sim::slow("forward unit 9", 2), "the nearest one is 'forward unit"},
      {sim::slow(sim::rank{0}, 0), "wanted a factor above 0, got 0"},
      {sim::slow(sim::rank{0}, 2).when("forward"), "when() is for killing and freezing a rank"},
      {sim::slow("forward unit 1", 2).at(1ms), "wanted a step, got a time"},
      {sim::slow_disk(2).in_step(1), "it has no moment"},
      {sim::slow(sim::link{0, 1}, 2).at(1ms), "it has no moment"},
      {sim::slow(sim::link{1, 1}, 2), "wanted a link between two hosts, got one host"},
      {sim::late(sim::link{0, 5}, 1ms), "got host 5"},
      {sim::cut(sim::link{0, 5}), "fault cut link of hosts 0 and 5 for ever: wanted one of 2 hosts"},
      {sim::cut(sim::link{1, 1}), "wanted a link between two hosts, got one host"},
      {sim::full_disk(sim::rank{0}), "the rank writes to no disk"}};
  for (const auto& [f, words] : wrong) BOOST_TEST(says(refused(f), words), refused(f) << " | wanted: " << words);
  options.steps = {plan::plan_choice::evaluate};
  BOOST_TEST(
      says(refusal([&] { return sim::world(sharded_plans(), options); }), "wanted steps of kinds that have plans"));
  options.steps.clear();
  BOOST_TEST(says(refusal([&] { return sim::world(sharded_plans(), options); }), "wanted at least one step"));
  options = slow_cores();
  options.within_host.bytes_per_second = 0;
  BOOST_TEST(says(refusal([&] { return sim::world(sharded_plans(), options).run(); }), "more than 0 bytes a second"));
  const std::shared_ptr<const config::job_config> no_config;
  BOOST_TEST(says(refusal([&] { return sim::world(no_config); }), "wanted a configuration, got none"));
}

BOOST_AUTO_TEST_SUITE_END()
