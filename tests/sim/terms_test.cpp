// Tests worlds of several processes and hosts: the questions about terms and recovery, every fault in words, and the
// refusal of what such a world does not have.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "config/load.hpp"
#include "sim/world.hpp"
#include "tests/sim/small_plans.hpp"

BOOST_AUTO_TEST_SUITE(terms)

using namespace troupe;
using namespace std::chrono_literals;

namespace {

std::vector<actors::shared_rank_plans> sharded(uint32_t data) { return sim::small_plans(data, 3); }

/// Returns a job of three processes with one rank each.
sim::processes_world three_processes(uint64_t steps = 10) {
  sim::processes_options options;
  options.processes = 3;
  options.steps = steps;
  return sim::processes_world(sharded, options);
}

/// Returns a job of three hosts with one rank each.
sim::machines_world three_hosts(uint64_t steps = 10) {
  sim::machines_options options;
  options.steps = steps;
  return sim::machines_world(sharded, options);
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

BOOST_AUTO_TEST_CASE(a_lost_rank_costs_a_term_and_the_step_before_it_and_comes_back) {
  BOOST_TEST(sim::for_seeds(20, [](uint64_t seed) {
    const auto run = three_processes(100).with(sim::kill(sim::rank{1}).in_step(4)).run(seed);
    BOOST_TEST(run.ended_well());
    BOOST_TEST(run.faults_happened());
    BOOST_TEST(run.named("rank 1"));
    BOOST_TEST(!run.named("rank 2"));
    BOOST_TEST(!run.named("rank 12"));
    BOOST_TEST(run.terms().size() >= 3U);
    BOOST_TEST(run.terms()[0].data == 3U);
    BOOST_TEST(run.terms()[1].data == 2U);
    BOOST_TEST((run.terms()[1].processes == std::vector<uint32_t>{0, 2}));
    BOOST_TEST((run.terms()[1].from == sim::resume_source::memory));
    // The save that step 3 has made is whole, the one of step 4 is not.
    BOOST_TEST(run.resumed_at(2) == 3);
    BOOST_TEST(run.lost_steps() == 1);
    BOOST_TEST(run.degree() == 3);
    return run.ended_well();
  }));
}

BOOST_AUTO_TEST_CASE(a_job_without_faults_has_one_term_and_nothing_to_resume) {
  const auto run = three_processes().run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.terms().size() == 1U);
  BOOST_TEST(run.resumed_at(1) == 1);
  BOOST_TEST(run.lost_steps() == 0);
  BOOST_TEST(!run.named("rank 0"));
  BOOST_TEST(!run.failed_with("rank"));
  BOOST_TEST(says(refusal([&] { return run.resumed_at(); }), "never resumed"));
  BOOST_TEST(says(refusal([&] { return run.resumed_at(2); }), "wanted one of the terms 1 to 1, got 2"));
  BOOST_TEST(says(refusal([&] { return run.named(""); }), "got none"));
}

BOOST_AUTO_TEST_CASE(a_term_without_saves_in_memory_goes_on_from_the_disk_or_the_beginning) {
  sim::processes_options options;
  options.processes = 3;
  options.steps = 12;
  options.memory_every = 0;
  options.disk_every = 5;
  const sim::processes_world world(sharded, options);
  const auto late = world.with(sim::kill(sim::rank{2}).in_step(9)).run();
  BOOST_TEST(late.ended_well());
  BOOST_TEST((late.terms()[1].from == sim::resume_source::disk));
  BOOST_TEST(late.resumed_at(2) == 6);
  BOOST_TEST(late.lost_steps() == 3);
  const auto early = world.with(sim::kill(sim::rank{2}).in_step(4)).run();
  BOOST_TEST(early.ended_well());
  BOOST_TEST((early.terms()[1].from == sim::resume_source::beginning));
  BOOST_TEST(early.resumed_at(2) == 1);
  BOOST_TEST(early.lost_steps() == 3);
}

BOOST_AUTO_TEST_CASE(a_process_that_freezes_for_long_is_lost_and_one_that_freezes_shortly_is_not) {
  const auto lost = three_processes().with(sim::freeze(sim::rank{1}, 600ms).in_step(3)).run();
  BOOST_TEST(lost.ended_well());
  BOOST_TEST(lost.named("rank 1"));
  BOOST_TEST(lost.terms().size() >= 2U);
  const auto waited = three_processes().with(sim::freeze(sim::rank{1}, 50ms).in_step(3)).run();
  BOOST_TEST(waited.ended_well());
  BOOST_TEST(waited.faults_happened());
  BOOST_TEST(waited.terms().size() == 1U);
  BOOST_TEST(waited.log().seconds > three_processes().run().log().seconds + 0.03);
}

BOOST_AUTO_TEST_CASE(faults_of_instructions_and_disks_are_those_of_one_process) {
  const double usual_s = three_processes().run().log().seconds;
  const auto late = three_processes().with(sim::late("forward unit 0", 200ms).on(sim::rank{1}).in_step(2)).run();
  BOOST_TEST(late.ended_well());
  BOOST_TEST(late.faults_happened());
  BOOST_TEST(late.log().seconds > usual_s + 0.15);
  const auto stalled = three_processes().with(sim::lose("forward unit 0").on(sim::rank{1}).in_step(2)).run();
  BOOST_TEST(stalled.faults_happened());
  BOOST_TEST(!stalled.ended_well());
  BOOST_TEST(stalled.failed_with("rank 1"));
  sim::processes_options options;
  options.disk_every = 2;
  const sim::processes_world saving(sharded, options);
  const auto full = saving.with(sim::full_disk(sim::rank{1})).run();
  BOOST_TEST(full.faults_happened());
  BOOST_TEST(full.failed_with("the disk of rank 1 is full"));
  const auto frozen = saving.with(sim::freeze_disk(30ms).in_step(3)).run();
  BOOST_TEST(frozen.ended_well());
  BOOST_TEST(frozen.faults_happened());
  options.disk_every = 1;
  const sim::processes_world always(sharded, options);
  const auto slow = always.with(sim::slow_disk(10'000)).run();
  BOOST_TEST(slow.ended_well());
  BOOST_TEST(slow.log().seconds > always.run().log().seconds + 0.1);
  BOOST_TEST(three_processes().with(sim::late_message(1ms)).run().ended_well());
}

BOOST_AUTO_TEST_CASE(a_lost_host_is_named_and_its_save_is_read_from_another_one) {
  const auto run = three_hosts(30).with(sim::kill(sim::host{1}).in_step(6)).run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.faults_happened());
  BOOST_TEST(run.named("rank 1"));
  BOOST_TEST((run.terms().back().from == sim::resume_source::memory));
  BOOST_TEST((run.terms().back().processes == std::vector<uint32_t>{0, 2}));
  BOOST_TEST(run.degree() == 2);
  BOOST_TEST(run.lost_steps() <= 2);
  const auto process = three_hosts(30).with(sim::kill(sim::rank{2}).in_step(6)).run();
  BOOST_TEST(process.ended_well());
  BOOST_TEST(process.named("rank 2"));
  BOOST_TEST(process.terms()[1].data == 2U);
}

BOOST_AUTO_TEST_CASE(a_cut_link_costs_nothing_a_term_or_a_host_by_how_long_it_is_cut) {
  const auto is_short = three_hosts().with(sim::cut(sim::link{0, 2}, 100ms).in_step(4)).run();
  BOOST_TEST(is_short.ended_well());
  BOOST_TEST(is_short.faults_happened());
  BOOST_TEST(is_short.terms().size() == 1U);
  BOOST_TEST(is_short.lost_steps() == 0);
  const auto for_good = three_hosts(30).with(sim::cut(sim::link{0, 2}).in_step(4)).run();
  BOOST_TEST(for_good.ended_well());
  BOOST_TEST(for_good.named("rank 2"));
  BOOST_TEST(for_good.degree() == 2);
  // The two hosts of this link still reach the supervisor.
  const auto between = three_hosts(30).with(sim::cut(sim::link{1, 2}, 400ms).in_step(4)).run();
  BOOST_TEST(between.ended_well());
  BOOST_TEST(between.terms().size() >= 2U);
  BOOST_TEST(between.degree() == 3);
  BOOST_TEST(between.lost_steps() <= 2);
  const auto never = three_hosts(30).with(sim::cut(sim::link{1, 2}).in_step(4)).run();
  BOOST_TEST(never.failed_with("losses with no step in between"));
}

BOOST_AUTO_TEST_CASE(slow_and_late_links_between_hosts_make_steps_longer) {
  const double usual_s = three_hosts().run().log().seconds;
  const auto slow = three_hosts().with(sim::slow(sim::link{0, 1}, 100)).run();
  BOOST_TEST(slow.ended_well());
  BOOST_TEST(slow.faults_happened());
  BOOST_TEST(slow.log().seconds > usual_s + 0.05);
  BOOST_TEST(three_hosts().with(sim::late(sim::link{1, 2}, 5ms)).run().log().seconds > usual_s + 0.05);
}

BOOST_AUTO_TEST_CASE(the_same_seed_recovers_in_the_same_way) {
  const auto world = three_processes(20).with(sim::kill(sim::rank{2}).at(40ms));
  const auto a = world.run(3), b = world.run(3);
  BOOST_TEST(a.log().messages == b.log().messages);
  BOOST_TEST(a.log().seconds == b.log().seconds);
  BOOST_TEST(a.log().said == b.log().said);
}

BOOST_AUTO_TEST_CASE(a_configuration_is_a_job_of_processes_or_of_hosts_at_every_degree) {
  const std::string text =
      "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
      "data: {text: corpus.txt, sequence_length: 16}\n"
      "steps: 10\n"
      "train_micro_batch_size_per_gpu: 2\n"
      "parallel: {data: 2}\noptimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";
  auto loaded = config::load_text(text, "job.yaml", "/base");
  BOOST_TEST_REQUIRE(loaded.has_value(), (loaded ? std::string() : config::render(loaded.error())));
  const auto config = std::make_shared<const config::job_config>(std::move(loaded->config));
  sim::processes_options options;
  options.processes = 2;
  options.memory_every = 1;
  const auto run = sim::processes_world(config, options).with(sim::kill(sim::rank{1}).in_step(3)).run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.terms()[1].data == 1U);
  BOOST_TEST(run.resumed_at(2) == 2);
  sim::machines_options hosts;
  hosts.hosts = {0, 1};
  hosts.memory_every = 1;
  const auto apart = sim::machines_world(config, hosts).with(sim::kill(sim::host{1}).in_step(5)).run();
  BOOST_TEST(apart.ended_well());
  BOOST_TEST(apart.degree() == 1);
  options.processes = 3;
  BOOST_TEST(says(refusal([&] { return sim::processes_world(config, options); }), "divides 2 ranks, got 3"));
  options.processes = 2;
  options.ranks_each = 2;
  BOOST_TEST(says(refusal([&] { return sim::processes_world(config, options); }), "are for worlds of plans"));
}

BOOST_AUTO_TEST_CASE(what_a_world_of_processes_does_not_have_is_refused_by_name) {
  const auto refused = [](const sim::fault& f) { return refusal([&] { return three_processes().with(f); }); };
  const std::pair<sim::fault, const char*> wrong[] = {
      {sim::kill(sim::rank{3}), "fault kill rank 3: wanted one of 3 ranks, got rank 3"},
      {sim::kill(sim::rank{0}).in_step(11), "wanted one of the steps 1 to 10, got 11"},
      {sim::kill(sim::rank{1}).when("forward"), "when() is for worlds of one process"},
      {sim::kill(sim::host{0}), "the supervisor is on host 0"},
      {sim::slow(sim::rank{1}, 2).at(1ms), "wanted a step, got a time"},
      {sim::late("forward unit 9", 1ms), "no instruction of the chosen ranks and steps is named 'forward unit 9'"},
      {sim::full_disk(sim::rank{0}), "the rank writes to no disk"},
      {sim::cut(sim::link{0, 1}), "got host 1"},
      {sim::slow(sim::link{0, 1}, 2), "got host 1"}};
  for (const auto& [f, words] : wrong) BOOST_TEST(says(refused(f), words), refused(f) << " | wanted: " << words);
  BOOST_TEST(says(refusal([] { return three_hosts().with(sim::cut(sim::link{1, 3})); }), "got host 3"));
  BOOST_TEST(says(refusal([] { return three_hosts().with(sim::kill(sim::host{0})); }), "the supervisor is on host 0"));
  sim::machines_options hosts;
  hosts.hosts = {0, 2};
  BOOST_TEST(says(refusal([&] { return sim::machines_world(sharded, hosts); }), "in ascending order from 0"));
  hosts.hosts = {0, 0};
  BOOST_TEST(says(refusal([&] { return sim::machines_world(sharded, hosts); }), "wanted two hosts at least"));
  sim::processes_options none;
  none.steps = 0;
  BOOST_TEST(says(refusal([&] { return sim::processes_world(sharded, none); }), "wanted a step at least"));
  const std::shared_ptr<const config::job_config> no_config;
  BOOST_TEST(says(refusal([&] { return sim::processes_world(no_config); }), "wanted a configuration, got none"));
}

BOOST_AUTO_TEST_SUITE_END()
