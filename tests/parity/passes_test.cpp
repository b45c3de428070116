// Checks that optimisation passes over the plan preserve losses, norms, weights and moments: each alone, all together,
// changed between steps, resumed in the middle of their schedule, and an embedding program's own pass.
#include "plan/passes/pass.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "plan/choose/compile.hpp"
#include "tests/parity/own_model.hpp"
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

std::atomic<bool> pauses = false;

/// Returns a model whose forward sleeps for 200 ms while `pauses` is true.
actors::host_model pausing_model() {
  return {[] {
            auto out = make_own_model(0.1);
            out.units.insert(out.units.end() - 1, models::unit("pause", [](const at::Tensor& x) {
                               if (pauses) std::this_thread::sleep_for(std::chrono::milliseconds(200));
                               return x * 1;
                             }));
            return out;
          },
          &own_batch, &own_batch};
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

BOOST_AUTO_TEST_CASE(they_change_between_steps_and_measured_times_leave_the_bits) {
  const small_job job;
  for (const auto& set : jobs) {
    const auto wanted = train(job, set, steps + 5);
    BOOST_TEST_CONTEXT(text_of(set)) {
      // The run does three steps each with modelled times, with measured times and without passes; its last steps use
      // the fastest of the three plans.
      check_same(train(job, set + settings{"compile=auto", "compile.profile_steps=3"}, steps + 5), wanted);
      check_same(train(job, set + with("[recompute, selective_gather]", 2), steps + 5), wanted);
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

// Steps 0 to 3 run the plan without passes, steps 4 to 7 the program's pass, and later steps the faster of the two
// plans.
BOOST_AUTO_TEST_CASE(a_choice_that_is_tried_stays_if_its_steps_are_faster_than_those_before) {
  const settings set = {"parallel.data=2", zero + "stage=3"};
  const auto wanted = result_of(*open_own(set, pausing_model()), 10);
  for (const bool slower : {true, false}) BOOST_TEST_CONTEXT("the choice is slower: " << slower) {
      std::vector<actors::passes_report> told;
      actors::session_options options{.config = own_config(set), .model = actors::own_model(pausing_model())};
      options.hooks.on_passes = [&](const actors::passes_report& r) { told.push_back(r); };
      auto opened = actors::session::open(std::move(options));
      BOOST_TEST_REQUIRE(opened.has_value());
      auto& s = **opened;
      const auto is_tried = [&] { return !s.training_plan(0).options().passes.empty(); };
      BOOST_REQUIRE(
          s.compile({{.step = 4, .own = {own("in a row", one_after_the_other)}, .tried_steps = 4}}).has_value());
      std::vector<uint64_t> losses;
      for (uint64_t i = 0; i < 10; ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        pauses = i < 8 && slower == (i >= 4);
        losses.push_back(std::bit_cast<uint64_t>(step_of(s).loss));
        BOOST_TEST(is_tried() == (i >= 4 && (i < 8 || !slower)));
      }
      pauses = false;
      BOOST_TEST(losses == wanted.losses, boost::test_tools::per_element());
      BOOST_TEST_REQUIRE(told.size() == (slower ? 2U : 1U));
      BOOST_TEST(told[0].steps == 4U);
      BOOST_TEST(!told[0].went_back.has_value());
      if (!slower) continue;
      BOOST_TEST(told[1].steps == 8U);
      BOOST_TEST_REQUIRE(told[1].went_back.has_value());
      BOOST_TEST(told[1].went_back->step_s > told[1].went_back->earlier_step_s + 0.05);
    }
}

// The program's pass is scheduled for step 4, and its trial ends at step 8.
BOOST_AUTO_TEST_CASE(a_rank_whose_profile_failed_makes_all_stay_with_what_they_know) {
  const settings set = {"parallel.data=2", zero + "stage=3"};
  const auto wanted = result_of(*open_own(set, pausing_model()), 10);
  for (const size_t failed : {1, 2}) BOOST_TEST_CONTEXT("vote " << failed) {
      size_t votes = 0;
      std::vector<std::string> warnings;
      actors::session_options options{.config = own_config(set), .model = actors::own_model(pausing_model())};
      options.hooks.on_warning = [&](const std::string& line) { warnings.push_back(line); };
      options.hooks.on_votes = [&](std::vector<plan::rank_vote>& v) {
        BOOST_TEST_REQUIRE(v.size() == 2U);
        for (const auto& x : v) {
          BOOST_TEST(x.failure.empty());
          BOOST_TEST(x.step_s > 0);
          BOOST_TEST(x.peak_bytes > 0U);
          BOOST_TEST(!x.prices.empty());
        }
        if (++votes == failed) v[1].failure = "it was suspended";
      };
      auto opened = actors::session::open(std::move(options));
      BOOST_TEST_REQUIRE(opened.has_value());
      auto& s = **opened;
      BOOST_REQUIRE(
          s.compile({{.step = 4, .own = {own("in a row", one_after_the_other)}, .tried_steps = 4}}).has_value());
      std::vector<uint64_t> losses;
      for (uint64_t i = 0; i < 10; ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        pauses = i < 4;  // makes the steps before the trial slower
        losses.push_back(std::bit_cast<uint64_t>(step_of(s).loss));
        BOOST_TEST(!s.training_plan(0).options().passes.empty() == (failed == 2 && i >= 4 && i < 8));
      }
      pauses = false;
      BOOST_TEST(losses == wanted.losses, boost::test_tools::per_element());
      BOOST_TEST(votes == failed);
      BOOST_TEST_REQUIRE(warnings.size() == 1U);
      BOOST_TEST(warnings[0] == "passes: no choice by measured times: rank 1 has no profile: it was suspended");
    }
}

// The initial loss scale is so large that the first steps overflow, more of them than the profile has steps.
BOOST_AUTO_TEST_CASE(steps_that_are_skipped_are_not_measured_and_a_trial_waits_for_others) {
  const small_job job;
  const settings set = {"parallel.data=2", zero + "stage=3", "fp16.enabled=true", "fp16.initial_scale_power=32",
                        "fp16.hysteresis=1"};
  const auto skipped_of = [&](actors::session& s, uint64_t n, std::vector<uint64_t>& losses) {
    uint64_t out = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const auto r = step_of(s);
      out += r.skipped ? 1 : 0;
      losses.push_back(std::bit_cast<uint64_t>(r.loss));
    }
    return out;
  };
  constexpr uint64_t all = 30;
  std::vector<uint64_t> wanted, losses;
  const auto plain = job.open(set);
  const uint64_t skipped = skipped_of(*plain, all, wanted);
  BOOST_TEST_REQUIRE(skipped >= 5U);
  BOOST_TEST_REQUIRE(skipped + 12 <= all);
  std::vector<actors::passes_report> told;
  actors::session_hooks hooks;
  hooks.on_passes = [&](const actors::passes_report& r) { told.push_back(r); };
  const auto open = [&](const settings& more) {
    auto opened = actors::session::open({.config = job.config(set + more), .hooks = hooks});
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().text));
    return std::move(*opened);
  };
  const auto chosen = open({"compile=auto", "compile.profile_steps=3"});
  BOOST_TEST(skipped_of(*chosen, all, losses) == skipped);
  BOOST_TEST(losses == wanted, boost::test_tools::per_element());
  const auto measured = std::ranges::find_if(told, [](const auto& r) { return r.measured; });
  BOOST_TEST_REQUIRE((measured != told.end()));
  BOOST_TEST(measured->steps == skipped + 3);

  told.clear();
  losses.clear();
  const auto own_pass = open({});
  BOOST_REQUIRE(
      own_pass->compile({{.step = 2, .own = {own("in a row", one_after_the_other)}, .tried_steps = 2}}).has_value());
  (void)skipped_of(*own_pass, all, losses);
  BOOST_TEST(losses == wanted, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(!told.empty());
  BOOST_TEST(told[0].steps == skipped + 3);
  for (const auto& r : told)
    if (r.went_back) BOOST_TEST(r.steps == skipped + 6);  // a trial ends only after three of its own steps
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
  const auto wanted = train(job, set, steps + 4);
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
  check_same(train(job, set + within(1 << 30, one), steps + 4), wanted);
  check_same(train(job, set + within(budget, one), steps + 4), wanted);
  // Later choices by measured times reconsider all passes, but do not move the states.
  check_same(train(job, set + within(budget, {"compile=auto"}) + settings{"compile.profile_steps=3"}, steps + 4),
             wanted);
  const auto refused = job.open(set)->compile({{.step = 1, .passes = {"offload_optimizer"}}});
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text ==
             "passes between two steps: wanted no pass that chooses where states are stored, which is fixed for the "
             "whole run, got offload_optimizer");
}

BOOST_AUTO_TEST_SUITE_END()
