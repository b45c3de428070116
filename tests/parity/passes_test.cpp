// Checks that optimisation passes over the plan preserve losses, norms, weights and moments: each alone, all together,
// changed between steps, resumed in the middle of their schedule, and an embedding program's own pass.
#include "plan/passes/pass.hpp"

#include <fmt/format.h>

#include "plan/choose/compile.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(passes)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 5;
const std::string zero = "zero_optimization.";

/// For every pass, at least one of these jobs offers a choice.
const std::vector<settings> jobs = {
    {"parallel.data=2", zero + "stage=3", "gradient_accumulation_steps=2"},
    {"parallel.data=2", zero + "stage=2", "activation_checkpointing.enabled=true", "cluster.offload_activations=cpu"},
    {"parallel.data=2", "parallel.pipeline=2", zero + "stage=3", "gradient_accumulation_steps=4",
     "pipeline.schedule=zb_h1"},
    {"parallel.data=1", "parallel.tensor=2", "bf16.enabled=true"}};

settings with(const std::string& passes, uint64_t from = 0) {
  return {"compile.deepcompile=true", fmt::format("compile.schedule=[{{step: {}, passes: {}}}]", from, passes)};
}

std::string all_passes_by_name() {
  std::string out;
  for (const auto& x : plan::option_passes())
    if (x.keeps_bits) out += (out.empty() ? "" : ", ") + std::string(x.name);
  return "[" + out + "]";
}

// A pass that makes every instruction wait for the previous one of its lane: correct but slower.
std::string one_after_the_other(plan::draft& d, const plan::rank_plan&) {
  plan::handle before = plan::none;
  for (plan::handle x = d.begin; x != plan::none; x = d.next(x)) {
    if (d.is_mark(x) || plan::lane_of(d.at(x).kind) != plan::lane::compute) continue;
    d.depend(x, before);
    before = x;
  }
  return "in a row";
}

// An incorrect pass that removes all dependencies of forwards.
std::string wait_for_nothing(plan::draft& d, const plan::rank_plan&) {
  for (plan::handle x = d.begin; x != plan::none; x = d.next(x))
    if (!d.is_mark(x) && d.at(x).kind == plan::kind::forward) d.depend_on_nothing(x);
  return "in a hurry";
}

std::shared_ptr<const plan::pass> own(const char* name, std::string (*run)(plan::draft&, const plan::rank_plan&)) {
  return std::make_shared<const plan::pass>(
      plan::pass{name, {.needs = {plan::fact::gathers_placed}, .provides = {}, .keeps = plan::all_facts}, run});
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_alone_and_all_together_leave_the_bits) {
  for (const auto& set : jobs) {
    const small_job job(tiny_gpt2_with_dropout);
    const auto wanted = train(job, set, steps);
    for (const auto& x : plan::option_passes()) BOOST_TEST_CONTEXT(x.name << text_of(set)) {
        if (!x.keeps_bits) continue;
        check_same(train(job, set + with("[" + std::string(x.name) + "]"), steps), wanted);
      }
    BOOST_TEST_CONTEXT("all" << text_of(set)) {
      check_same(train(job, set + with(all_passes_by_name()), steps), wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_automatic_choice_and_a_change_between_steps_leave_the_bits) {
  const small_job job;
  for (const auto& set : jobs) {
    const auto wanted = train(job, set, steps);
    BOOST_TEST_CONTEXT(text_of(set)) {
      check_same(train(job, set + settings{"compile=auto"}, steps), wanted);
      check_same(train(job, set + with("[recompute, selective_gather]", 2), steps), wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_entry_begins_with_the_plan_of_the_other_keys) {
  const small_job job;
  const settings set = {"parallel.data=2", "activation_checkpointing.enabled=true"};
  const auto recomputes = [](const actors::session& s) { return s.training_plan(0).options().recompute; };
  const auto s = job.open(set + settings{"compile.deepcompile=true",
                                         "compile.schedule=[{step: 1, passes: [recompute]}, "
                                         "{step: 2, passes: []}]"});
  for (const bool plain : {true, false, true}) {
    BOOST_TEST_INFO_SCOPE("plain " << plain);
    step_of(*s);
    BOOST_TEST(recomputes(*s) == plain);
  }
}

BOOST_AUTO_TEST_CASE(a_budget_is_kept_to_and_the_least_is_said_of_one_that_nothing_fits) {
  const small_job job;
  const settings set = {"parallel.data=2", zero + "stage=3"};
  const auto total = [&](const actors::session& s) { return s.training_plan(0).memory.total(); };
  const auto plain = job.open(set);
  const uint64_t budget = 2 * (total(*plain) * 4 / 5);
  const settings limited = set + settings{"compile=auto", fmt::format("compile.memory_budget={}", budget)};
  const auto s = job.open(limited);
  BOOST_TEST(total(*s) <= budget / 2);
  check_same(train(job, limited, steps), train(job, set, steps));
  const auto refused = job.try_open(set + settings{"compile=auto", "compile.memory_budget=1000"});
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("compile.memory_budget: wanted at least ") != std::string::npos,
             refused.error().text);
}

BOOST_AUTO_TEST_CASE(a_run_is_resumed_in_the_middle_of_a_schedule_and_at_another_cut) {
  const small_job job;
  const settings set = {"parallel.data=2", zero + "stage=3", "compile.deepcompile=true",
                        "compile.schedule=[{step: 0, passes: [prefetch]}, {step: 2, passes: [recompute]}, "
                        "{step: 4, passes: [selective_gather, fuse_buckets]}]"};
  const auto wanted = train(job, set, 6);
  const auto first = job.open(set);
  for (uint64_t i = 0; i < 3; ++i) step_of(*first);
  const auto folder = job.folder().path() / "saved";
  BOOST_REQUIRE(first->save({.root = folder}).has_value());
  for (const settings& other :
       {settings{}, settings{"parallel.pipeline=2", zero + "stage=1", "tied_gradients=per_use"}}) {
    auto again = actors::session::open({.config = job.config(set + other), .resume = folder});
    BOOST_REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().text));
    if (!other.empty()) continue;  // another order of tied gradients changes the sums
    for (uint64_t i = 3; i < 6; ++i)
      BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(std::bit_cast<uint64_t>(step_of(**again).loss) == wanted.losses[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_programs_own_pass_runs_and_a_wrong_one_changes_nothing) {
  const small_job job;
  const settings set = {"parallel.data=2", zero + "stage=3"};
  const auto wanted = train(job, set, steps);
  const auto s = job.open(set);
  BOOST_REQUIRE(s->compile({{.step = 0, .own = {own("in a row", one_after_the_other)}}}).has_value());
  const auto wrong = s->compile({{.step = 1, .own = {own("hurry", wait_for_nothing)}}});
  BOOST_REQUIRE(!wrong.has_value());
  BOOST_TEST(wrong.error().text.find("forward ") != std::string::npos, wrong.error().text);
  const auto unknown = s->compile({{.step = 1, .passes = {"prefetch", "magic"}}});
  BOOST_REQUIRE(!unknown.has_value());
  BOOST_TEST(unknown.error().text.find("got magic") != std::string::npos, unknown.error().text);
  const auto back = s->compile({{.step = 3}, {.step = 3}});
  BOOST_REQUIRE(!back.has_value());
  BOOST_TEST(back.error().text == "compile: wanted steps that ascend, got 3 after 3");
  check_same(result_of(*s, steps), wanted);
}

BOOST_AUTO_TEST_CASE(a_choice_is_told_when_the_run_begins_and_when_an_entry_takes_effect) {
  const small_job job;
  std::vector<actors::passes_report> told;
  actors::session_options options{
      .config = job.config({"parallel.data=2", zero + "stage=3", "compile.deepcompile=true",
                            "compile.schedule=[{step: 0, passes: [prefetch]}, {step: 2, passes: [recompute]}]"})};
  options.hooks.on_passes = [&](const actors::passes_report& r) { told.push_back(r); };
  auto opened = actors::session::open(std::move(options));
  BOOST_TEST_REQUIRE(opened.has_value());
  for (uint64_t i = 0; i < steps; ++i) step_of(**opened);
  BOOST_TEST_REQUIRE(told.size() == 2U);
  BOOST_TEST(told[0].steps == 0U);
  BOOST_TEST(told[1].steps == 2U);
  for (const auto& r : told) BOOST_TEST(r.compiled.gains.size() == 1U);
}

BOOST_AUTO_TEST_CASE(as_much_of_the_optimizer_stays_in_memory_as_a_budget_leaves_room_for) {
  const small_job job;
  const settings set = {"parallel.data=2",
                        zero + "stage=3",
                        zero + "sub_group_size=2048",
                        zero + "offload_optimizer.device=nvme",
                        zero + "offload_optimizer.nvme_path=" + job.folder().path().string(),
                        "cluster.swap_gradients=false"};
  const auto within = [](uint64_t bytes, const settings& what) {
    return what + settings{fmt::format("compile.memory_budget={}", bytes)};
  };
  const settings one = {"compile.deepcompile=true", "compile.passes=[offload_optimizer]"};
  struct placed {
    uint64_t bytes;  // planned memory of one rank
    double ratio;
  };
  const auto opened_by = [&](const settings& other) {
    const auto s = job.open(other);  // must be closed before the next one, because it locks the swap folder
    return placed{s->training_plan(0).memory.total(), s->training_plan(0).options().tiers.ratio};
  };
  const auto wanted = train(job, set, steps);
  const placed files = opened_by(set), memory = opened_by(set + within(1 << 30, one));
  BOOST_TEST(files.ratio == 1.0);
  BOOST_TEST(memory.ratio == 0.0);
  BOOST_TEST_REQUIRE(files.bytes < memory.bytes);
  // The budget is for both ranks: it allows half of the states that would be in files to stay in memory.
  const uint64_t budget = files.bytes + memory.bytes;
  const placed part = opened_by(set + within(budget, one));
  BOOST_TEST(part.ratio > 0.25);
  BOOST_TEST(part.ratio < 0.75);
  BOOST_TEST(part.bytes <= budget / 2);
  check_same(train(job, set + within(1 << 30, one), steps), wanted);
  check_same(train(job, set + within(budget, one), steps), wanted);
  check_same(train(job, set + within(budget, {"compile=auto"}), steps), wanted);
  const auto refused = job.open(set)->compile({{.step = 1, .passes = {"offload_optimizer"}}});
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text ==
             "passes between two steps: wanted no pass that chooses where states are stored, which is fixed for the "
             "whole run, got offload_optimizer");
}

BOOST_AUTO_TEST_SUITE_END()
