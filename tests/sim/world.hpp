// Builds the scenario of a seed for the simulation tests: plans, runs, timing and faults.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>
#include <string>

#include "actors/lane.hpp"
#include "actors/sim/sim.hpp"
#include "job/blueprint.hpp"
#include "tests/plan/compression_samples.hpp"
#include "tests/plan/exchange_samples.hpp"
#include "tests/plan/taught_samples.hpp"
#include "tests/sim/replay.hpp"

namespace troupe::actors {

struct scenario {
  std::vector<shared_rank_plans> plans;  // plans of all ranks, by plan_choice
  std::vector<plan::plan_choice> order;
  sim_options options;
};

/// Returns a random model that can be trained, for some seeds with a teacher. For every fifth seed it is sharded over a
/// tensor, sequence or context group; for every third it is cut into pipeline stages.
inline std::pair<plan::shared_table, plan::plan_options> job_of(uint64_t seed, std::mt19937_64& random) {
  if (seed % 5 == 4) return plan::random_shared_cut(random, plan::mode::train);
  if (seed % 3 == 2) return (seed % 7 == 3 ? plan::random_taught_cut : plan::random_cut)(random, plan::mode::train);
  const auto any_table = [&] { return seed % 7 == 3 ? plan::random_taught_table(random) : plan::random_table(random); };
  auto table = any_table();
  auto options = plan::random_options(*table, random);
  // The loop repeats until the model has a parameter that is trained.
  for (options.mode = plan::mode::train; !plan::make_layout(table, options); options.mode = plan::mode::train) {
    table = any_table();
    options = plan::random_options(*table, random);
  }
  if (seed % 3 == 1) plan::put_in_groups(options);
  return {std::move(table), std::move(options)};
}

/// Returns the plans of a job for all kinds of steps, indexed by plan_choice.
inline std::vector<shared_rank_plans> all_plans(const plan::shared_table& table, const plan::plan_options& trained) {
  std::vector<shared_rank_plans> out;
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::evaluate, plan::plan_choice::generate,
                           plan::plan_choice::train_saving, plan::plan_choice::save}) {
    auto options = trained;
    options.mode = mode_of(which);
    options.saving.on = saves(which);
    if (options.mode != plan::mode::train) plan::only_forward(options, 1);
    out.push_back(plan::plans_of(table, options));
  }
  return out;
}

/// Returns a scenario with two or three runs, each a training step, an evaluation, a generation or a save.
inline scenario scenario_of(uint64_t seed, bool with_fault) {
  std::mt19937_64 random(seed);
  scenario s;
  auto [table, options] = job_of(seed, random);
  std::mt19937_64 of_compression(seed);
  if (seed % 4 == 1) plan::compress_some(*table, of_compression, options);
  options.updates.speculate = options.updates.may_clip = seed % 2 == 1;
  s.plans = all_plans(table, options);
  const uint64_t runs = 2 + random() % 2;
  for (uint64_t i = 0; i < runs; ++i)
    s.order.push_back(static_cast<plan::plan_choice>(random() % 4 < 2 ? 0 : random() % plan::num_plan_choices));
  auto& o = s.options;
  o.seed = seed;
  o.latency_max = std::chrono::nanoseconds(random() % 3 == 0 ? 0 : random() % 400'000);
  o.noise = double(random() % 3);
  o.window = progress_batch + static_cast<uint32_t>(random() % 20);
  if (random() % 4 == 0) o.overflow_in_run = 1 + random() % runs;
  if (options.updates.may_clip) o.clip_in_run = 1 + seed / 2 % runs;
  if (with_fault) o.fault = draw_fault(seed, s.plans, s.order, o.stall_after);
  return s;
}

/// Simulates a seed and checks all invariants. If one fails, prints the command that repeats the simulation.
inline sim_result play(uint64_t seed, bool with_fault) {
  const auto s = scenario_of(seed, with_fault);
  auto did = simulate(s.plans, s.order, s.options);
  std::string wrong;
  if (!did) {
    wrong = did.error().text;
  } else if (auto ok = check_log(s.plans, *did, s.options.window); !ok) {
    wrong = ok.error().text;
  } else if (auto ended = check_ending(*did, s.options, s.order.size()); !ended) {
    wrong = ended.error().text;
  }
  for (size_t run = 0; did && wrong.empty() && run < did->runs.size(); ++run) {
    if (did->runs[run].outcome.failure) continue;
    if (auto meant = replay(s.plans[static_cast<size_t>(did->runs[run].which)], *did, run); !meant)
      wrong = meant.error().text;
  }
  const auto& suite = boost::unit_test::framework::master_test_suite();
  BOOST_CHECK_MESSAGE(wrong.empty(),
                      "seed " << seed << ", " << s.options.fault.describe() << ": " << wrong
                              << "\n  replay: TROUPE_SEED=" << seed << " " << suite.argv[0]
                              << " --run_test=" << boost::unit_test::framework::current_test_case().full_name());
  return did ? std::move(*did) : sim_result{};
}

/// Returns the range of seeds to simulate: only TROUPE_SEED, or the first TROUPE_SEEDS seeds, or the first `usual`.
inline std::pair<uint64_t, uint64_t> seeds(uint64_t usual) {
  if (const char* one = std::getenv("TROUPE_SEED")) {
    const uint64_t seed = std::strtoull(one, nullptr, 10);
    return {seed, seed + 1};
  }
  if (const char* many = std::getenv("TROUPE_SEEDS")) return {0, std::strtoull(many, nullptr, 10)};
  return {0, usual};
}

}  // namespace troupe::actors
