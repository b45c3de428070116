// Tests that ranks which one set of actors acts for do what their own actors would do: every instruction of every rank
// starts and ends at the same nanosecond in a folded world and in one with the actors of all ranks.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "job/step/step_plans.hpp"
#include "plan/kinds.hpp"
#include "sim/fold.hpp"
#include "sim/world.hpp"
#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(folded_world)

using namespace troupe;
using namespace std::chrono_literals;
using core::axis;

namespace {

constexpr uint32_t most_ranks = 64;

/// Returns the options with `factor` times as many shards.
plan::plan_options enlarged(const plan::plan_options& of, uint32_t factor) {
  const core::mesh m = of.mesh;
  plan::plan_options out = of;
  out.mesh = {{axis::pipeline, m.degree(axis::pipeline)},    {axis::replicate, m.degree(axis::replicate)},
              {axis::shard, factor * m.degree(axis::shard)}, {axis::sequence, m.degree(axis::sequence)},
              {axis::context, m.degree(axis::context)},      {axis::tensor, m.degree(axis::tensor)}};
  return out;
}

/// Returns a model whose parameters most numbers of ranks divide evenly, and options of a job of it that is cut into
/// stages for every fourth seed.
std::pair<plan::shared_table, plan::plan_options> even_job(uint64_t seed, std::mt19937_64& random) {
  constexpr uint64_t often_divided = 192 * core::partition_grain;
  for (;;) {
    std::vector<uint64_t> numels(2 + random() % 3);
    for (uint64_t& n : numels) n = often_divided * (1 + random() % 2);
    auto table = plan::chain_table(numels);
    auto options = plan::random_options(*table, random);
    options.mode = plan::mode::train;
    if (seed % 4 == 0) plan::cut_at_random(options, *table, random);
    if (plan::make_layout(table, options)) return {std::move(table), std::move(options)};
  }
}

/// Returns the plans of a random job of at most 64 ranks for steps of the kind `which`.
std::vector<actors::shared_rank_plans> random_plans(uint64_t seed, plan::plan_choice which, std::mt19937_64& random) {
  auto [table, options] = seed % 2 == 0 ? even_job(seed, random) : actors::job_of(seed, random);
  options.saving.on = plan::saves(which);
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  for (uint32_t factor = most_ranks / options.ranks(); factor > 0; --factor) {
    const auto layout = plan::make_layout(table, enlarged(options, factor));
    if (!layout) continue;
    out[static_cast<size_t>(which)] = plan::plans_of(*layout);
    return out;
  }
  out[static_cast<size_t>(which)] = plan::plans_of(table, options);
  return out;
}

/// Returns the name of an instruction of the plan that is on one of the lanes; empty if there is none.
std::string any_name(const plan::rank_plan& p, std::initializer_list<plan::lane> lanes, std::mt19937_64& random) {
  std::vector<uint32_t> ids;
  for (const plan::lane l : lanes) {
    const auto& order = p.lanes[static_cast<size_t>(l)];
    ids.insert(ids.end(), order.begin(), order.end());
  }
  return ids.empty() ? std::string() : p.describe(ids[random() % ids.size()]);
}

/// Returns a random fault of a world with these plans and `hosts` hosts; for some draws, none.
std::optional<sim::fault> any_fault(const actors::shared_rank_plans& plans, uint32_t hosts, std::mt19937_64& random) {
  const sim::rank r{static_cast<uint32_t>(random() % plans.size())};
  const sim::host h{static_cast<uint32_t>(random() % hosts)};
  const auto time = std::chrono::nanoseconds(random() % 2'000'000);
  const double factor = double(2 + random() % 8);
  const auto& p = *plans[r.number];
  const std::string work = any_name(p, {plan::lane::compute, plan::lane::shard}, random);
  const std::string any = any_name(p, {plan::lane::compute, plan::lane::shard, plan::lane::fabric}, random);
  switch (random() % 18) {
    case 0:
      return sim::kill(r).at(time);
    case 1:
      if (work.empty()) return std::nullopt;
      return sim::kill(r).when(work);
    case 2:
      return sim::freeze(r, time);
    case 3:
      return sim::freeze(r, time).at(time / 2);
    case 4:
      return sim::slow(r, factor);
    case 5:
      return sim::slow(r, factor).at(time);
    case 6:
      if (work.empty()) return std::nullopt;
      return sim::slow(work, factor);
    case 7:
      if (work.empty()) return std::nullopt;
      return sim::slow(work, factor).on(r);
    case 8:
      if (work.empty()) return std::nullopt;
      return sim::late(work, time);
    case 9:
      if (work.empty()) return std::nullopt;
      return sim::late(work, time).on(r);
    case 10:
      if (any.empty()) return std::nullopt;
      return sim::lose(any).on(r);
    case 11:
      return sim::kill(h).at(time);
    case 12:
      return sim::freeze(h, time);
    case 13:
      return sim::slow(h, factor);
    case 14:
      return sim::freeze_disk(time).at(time / 4);
    case 15:
      return sim::slow_disk(factor);
    case 16:
      if (hosts < 2) return std::nullopt;
      return random() % 2 == 0 ? sim::slow(sim::link{0, hosts - 1}, factor) : sim::late(sim::link{0, hosts - 1}, time);
    default:
      return std::nullopt;
  }
}

sim::world_options random_world(uint64_t seed, plan::plan_choice which, std::mt19937_64& random) {
  constexpr uint32_t hosts_of[] = {0, 2, 4, 8, 16};
  sim::world_options out;
  out.seed = seed;
  out.steps = {which};
  if (random() % 8 == 0) out.steps.push_back(which);
  out.costs = plan::cost_model();
  out.ranks_per_host = hosts_of[random() % std::size(hosts_of)];
  out.within_host_by_costs = random() % 2 == 0;
  out.latency_max = std::chrono::nanoseconds(random() % 100'000);
  out.even_messages = true;
  return out;
}

/// Places the ranks on a network, half of whose nodes are slow.
void place(sim::world_options& options, uint64_t seed) {
  const auto read = sim::parse_network(
      fmt::format(
          "kind: network\nnodes:\n  - {{name: quick, count: {0}, devices: {1}, switches: [{{name: hub}}]}}\n"
          "  - {{name: tardy, count: {0}, devices: {1}, switches: [{{name: hub}}]}}\n"
          "switches: [{{name: spine}}]\nlinks:\n"
          "  - {{from: quick(n).device(d), to: quick(n).hub, bandwidth_bytes_per_s: 1.0e+9, latency_s: 1.0e-6, "
          "direction: both}}\n"
          "  - {{from: tardy(n).device(d), to: tardy(n).hub, bandwidth_bytes_per_s: 3.0e+8, latency_s: 2.0e-6, "
          "direction: both}}\n"
          "  - {{from: quick(n).hub, to: spine, bandwidth_bytes_per_s: 7.0e+8, latency_s: 0, direction: both}}\n"
          "  - {{from: tardy(n).hub, to: spine, bandwidth_bytes_per_s: 7.0e+8, latency_s: 0, direction: both}}\n",
          seed % 4 < 2 ? 4 : 16, seed % 4 < 2 ? 8 : 2),
      "net.yaml");
  BOOST_TEST_REQUIRE(read.has_value(), (read ? std::string() : read.error().text));
  options.placed_on = std::make_shared<const sim::network>(*read);
  options.ranks_per_host = 0;
  options.within_host_by_costs = false;
}

/// Returns the first difference between the run of a world with the actors of all ranks and that of a folded one; empty
/// if there is none.
std::string difference(const sim::history& whole, const sim::history& folded) {
  if (whole.steps.size() != folded.steps.size())
    return fmt::format("{} and {} steps", whole.steps.size(), folded.steps.size());
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    const auto &a = whole.steps[i], &b = folded.steps[i];
    if ((a.failure == nullptr) != (b.failure == nullptr) || (a.failure && a.failure->kind != b.failure->kind))
      return fmt::format("step {} ends with '{}' and '{}'", i + 1, a.failure ? a.failure->text : "",
                         b.failure ? b.failure->text : "");
    if (a.began_ns != b.began_ns || a.ended_ns != b.ended_ns)
      return fmt::format("step {} is from {} to {} and from {} to {}", i + 1, a.began_ns, a.ended_ns, b.began_ns,
                         b.ended_ns);
  }
  for (size_t i = 0; i < whole.faults.size(); ++i)
    if (whole.faults[i].at_ns != folded.faults[i].at_ns)
      return fmt::format("fault '{}' happens at {} and {}", whole.faults[i].fault, whole.faults[i].at_ns,
                         folded.faults[i].at_ns);
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, const sim::span*> known;  // [step, rank that acts, instruction]
  std::map<uint32_t, int64_t> number, number_of_actor;                         // [rank]: number of its spans
  for (const auto& s : folded.spans) {
    known[{s.step, s.rank, s.id}] = &s;
    ++number_of_actor[s.rank];
  }
  for (const auto& s : whole.spans) {
    ++number[s.rank];
    const auto found = known.find({s.step, folded.actor_of(s.rank), s.id});
    const bool is_there = found != known.end();
    if (is_there && found->second->start_ns == s.start_ns && found->second->end_ns == s.end_ns) continue;
    return fmt::format("step {}, rank {}, for which rank {} acts: '{}' is from {} to {}, and {}", s.step, s.rank,
                       folded.actor_of(s.rank), whole.names[s.name], s.start_ns, s.end_ns,
                       is_there ? fmt::format("from {} to {}", found->second->start_ns, found->second->end_ns)
                                : std::string("does not start"));
  }
  for (uint32_t r = 0; r < whole.ranks; ++r)
    if (number[r] != number_of_actor[folded.actor_of(r)])
      return fmt::format("rank {} starts {} and {} instructions", r, number[r], number_of_actor[folded.actor_of(r)]);
  return {};
}

/// Returns plans of data ranks that divide their states evenly.
std::vector<actors::shared_rank_plans> data_parallel(uint32_t ranks, uint32_t stage) {
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving}) {
    auto options = plan::small_options(ranks, stage, 2);
    options.saving.on = plan::saves(which);
    out[static_cast<size_t>(which)] = plan::plans_of(
        plan::chain_table({16 * core::partition_grain, 32 * core::partition_grain, 16 * core::partition_grain}),
        options);
  }
  return out;
}

sim::world_options folded_options() {
  sim::world_options out;
  out.fold = true;
  return out;
}

std::string refusal(const auto& make) {
  try {
    static_cast<void>(make());
  } catch (const sim::world_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_instruction_starts_at_the_same_nanosecond_as_without_folding) {
  constexpr uint64_t usual_seeds = 300;
  uint64_t all = 0, acting = 0;
  const auto [first, last] = actors::seeds(usual_seeds);
  for (uint64_t seed = first; seed < last; ++seed) {
    std::mt19937_64 random(seed);
    const auto which = seed % 3 == 0 ? plan::plan_choice::train_saving : plan::plan_choice::train;
    const auto plans = random_plans(seed, which, random);
    auto options = random_world(seed, which, random);
    const auto ranks = static_cast<uint32_t>(plans[static_cast<size_t>(which)].size());
    if (seed % 10 == 1 || seed % 10 == 4) place(options, seed);
    const uint32_t hosts = options.placed_on != nullptr ? options.placed_on->node_of_device[ranks - 1] + 1
                           : options.ranks_per_host == 0
                               ? 1
                               : (ranks + options.ranks_per_host - 1) / options.ranks_per_host;
    const auto fault = any_fault(plans[static_cast<size_t>(which)], hosts, random);
    std::string wrong;
    try {
      sim::world whole(plans, options);
      options.fold = true;
      sim::world folded(plans, options);
      if (fault) {
        try {
          whole = whole.with(*fault);
        } catch (const sim::world_error& e) {
          // Some draws name a fault that the world does not have; both worlds refuse it with the same words.
          BOOST_TEST(refusal([&] { return folded.with(*fault); }) == e.what());
          continue;
        }
        folded = folded.with(*fault);
      }
      all += ranks;
      acting += folded.acted_by().empty() ? ranks : sim::num_acting(folded.acted_by());
      wrong = difference(whole.run().log(), folded.run().log());
    } catch (const sim::world_error& e) {
      wrong = e.what();
    }
    BOOST_CHECK_MESSAGE(wrong.empty(), "seed " << seed << ", " << ranks << " ranks, "
                                               << (fault ? fault->describe() : std::string("no fault")) << ": " << wrong
                                               << "\n  replay: TROUPE_SEED=" << seed);
  }
  BOOST_TEST_MESSAGE(acting << " of " << all << " ranks have acted");
  if (last - first == usual_seeds) BOOST_TEST(acting < all);
}

BOOST_AUTO_TEST_CASE(even_data_ranks_are_few_classes_at_every_stage_of_zero) {
  for (const uint32_t stage : {0U, 1U, 2U, 3U}) {
    const sim::world world(data_parallel(16, stage), folded_options());
    BOOST_TEST_CONTEXT("stage " << stage) {
      BOOST_TEST_REQUIRE(world.acted_by().size() == 16U);
      BOOST_TEST(sim::num_acting(world.acted_by()) < 16U);
      const auto run = world.run();
      BOOST_TEST(run.ended_well());
      BOOST_TEST(run.log().ranks == 16U);
      // A rank has the plan of the one that acts for it.
      const auto& plans = world.plans().front();
      BOOST_TEST_REQUIRE(plans.size() == 16U);
      for (uint32_t r = 0; r < 16; ++r) BOOST_TEST(plans[r]->rank == world.acted_by()[r]);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_fault_sets_its_rank_apart_and_a_late_message_all) {
  const sim::world world(data_parallel(16, 0), folded_options());
  const auto slow = world.with(sim::slow(sim::rank{5}, 3));
  BOOST_TEST_REQUIRE(slow.acted_by().size() == 16U);
  BOOST_TEST(slow.acted_by()[5] == 5U);
  BOOST_TEST(sim::num_acting(slow.acted_by()) >= sim::num_acting(world.acted_by()));
  for (uint32_t r = 0; r < 16; ++r)
    if (r != 5) BOOST_TEST(slow.acted_by()[r] != 5U);
  const auto run = slow.run();
  BOOST_TEST(run.ended_well());
  BOOST_TEST(run.faults_happened());
  BOOST_TEST(run.step_s().value() > world.run().step_s().value());
  BOOST_TEST(world.with(sim::late_message(1ms)).acted_by().empty());
  BOOST_TEST(world.with(sim::kill(sim::rank{7})).run().failed_with("rank 7"));
}

BOOST_AUTO_TEST_CASE(questions_about_a_rank_answer_for_the_one_that_acts_for_it) {
  auto options = folded_options();
  const auto folded = sim::world(data_parallel(16, 3), options).run();
  options.fold = false;
  options.even_messages = true;
  const auto whole = sim::world(data_parallel(16, 3), options).run();
  for (const uint32_t r : {0U, 7U, 15U}) {
    BOOST_TEST(folded.on(sim::rank{r}).idle(plan::lane::compute).value() ==
               whole.on(sim::rank{r}).idle(plan::lane::compute).value());
    BOOST_TEST(folded.on(sim::rank{r}).hidden("gather").value() == whole.on(sim::rank{r}).hidden("gather").value());
  }
  BOOST_TEST(folded.idle(plan::lane::compute).value() == whole.idle(plan::lane::compute).value());
  BOOST_TEST(folded.hidden("gather").value() == whole.hidden("gather").value());
  BOOST_TEST(refusal([&] { return folded.on(sim::rank{16}); }).find("16 ranks") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_world_that_cannot_be_folded_is_refused) {
  auto options = folded_options();
  options.noise = 0.5;
  BOOST_TEST(refusal([&] { return sim::world(data_parallel(4, 3), options); }).find("noise") != std::string::npos);
  options = folded_options();
  options.instructions_max = 10;
  BOOST_TEST(refusal([&] { return sim::world(data_parallel(4, 3), options); }).find("at most 10 instructions") !=
             std::string::npos);
  BOOST_TEST(refusal([&] {
               return sim::world(std::make_shared<const std::vector<job::step_plans>>(1), {});
             }).find("wanted fold for plans of classes") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
