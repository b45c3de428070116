// Tests the questions about a simulated run on a log that is written by hand, without actors: every number is known.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "sim/names.hpp"
#include "sim/run.hpp"
#include "sim/seeds.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(answers)

using namespace troupe;

namespace {

constexpr uint32_t gather_0 = 0, gather_1 = 1, forward_0 = 2, forward_1 = 3, reduce = 4, update = 5, swap_in = 6,
                   undo = 7;

void add(sim::history& h, uint32_t rank, plan::lane lane, uint32_t name, int64_t start_ns, int64_t moving_ns,
         int64_t end_ns, uint64_t step = 1) {
  h.spans.push_back({step, rank, lane, name, start_ns, moving_ns, end_ns});
}

/// Returns two ranks in a step of 100 us, which begins at 0. On rank 1, the update starts 2 us before the reduction
/// ends. `undo` is in the plans and never runs.
sim::history two_ranks() {
  sim::history h;
  h.seed = 7;
  h.ranks = 2;
  h.names = {
      "gather unit 0, forward", "gather unit 1, forward",        "forward unit 0",  "forward unit 1", "reduce bucket 3",
      "update sub-group 0",     "swap_in states of sub-group 0", "undo sub-group 0"};
  h.owners = {"activations", "moments"};
  h.steps.push_back({plan::plan_choice::train, 0, 100'000, nullptr});
  for (const uint32_t rank : {0U, 1U}) {
    add(h, rank, plan::lane::fabric, gather_0, 0, 5'000, 10'000);
    add(h, rank, plan::lane::fabric, gather_1, 10'000, 20'000, 50'000);
    add(h, rank, plan::lane::compute, forward_0, 10'000, 10'000, 40'000);
    add(h, rank, plan::lane::compute, forward_1, 50'000, 50'000, 80'000);
    add(h, rank, plan::lane::io, swap_in, 30'000, 30'000, 60'000);
  }
  add(h, 0, plan::lane::fabric, reduce, 80'000, 80'000, 90'000);
  add(h, 1, plan::lane::fabric, reduce, 80'000, 80'000, 95'000);
  add(h, 0, plan::lane::shard, update, 90'000, 90'000, 100'000);
  add(h, 1, plan::lane::shard, update, 93'000, 93'000, 100'000);
  h.memory = {{0, 0, 100, 0, 50'000},      {0, 0, 50, 50'000, 80'000}, {0, 0, 70, 20'000, 50'000},
              {0, 1, 120, 10'000, 20'000}, {1, 0, 40, 0, 100'000},     {1, 1, 40, 0, 100'000}};
  return h;
}

sim::simulated_run run_of(sim::history h) {
  return sim::simulated_run(std::make_shared<const sim::history>(std::move(h)));
}

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Returns the text of the world_error that `ask` throws.
std::string refusal(auto ask) {
  try {
    static_cast<void>(ask());
  } catch (const sim::world_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Sets an environment variable while the object exists; null removes it.
class variable_scope {
 public:
  variable_scope(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    had_ = std::getenv(name) != nullptr;
    set(value);
  }
  ~variable_scope() { set(had_ ? before_.c_str() : nullptr); }
  variable_scope(const variable_scope&) = delete;
  variable_scope& operator=(const variable_scope&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }
  const char* name_;
  std::string before_;
  bool had_ = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(names_are_those_of_the_plan_or_their_beginnings) {
  const std::string gather = "gather block 3, micro 1, backward";
  for (const char* wanted : {"gather", "gather block 3", "gather 3", "gather block 3, backward", "gather, micro 1",
                             "gather block 3, micro 1, backward", "gather block 3, backward, micro 1"})
    BOOST_TEST(sim::is_named(gather, wanted), wanted);
  for (const char* wanted : {"", "gath", "gather block", "gather block 33", "block 3", "gather 1", "gather, micro",
                             "gather, forward", "gather block 3 backward", "gather , , forward"})
    BOOST_TEST(sim::is_named(gather, wanted) == (std::string(wanted) == "gather block"), wanted);
  BOOST_TEST(sim::is_named("update sub-group 0", "update 0"));
  BOOST_TEST(!sim::is_named("update sub-group 10", "update 0"));
  BOOST_TEST(!sim::is_named("forward unit 1 segment 0", "forward 0"));
  BOOST_TEST(!sim::is_named("forward unit 1 segment 0", "forward unit 0"));
  BOOST_TEST(!sim::is_named("backward_weight unit 1", "backward"));
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_an_error_with_the_nearest_one) {
  const auto run = run_of(two_ranks());
  const std::string text = refusal([&] { return run.starts("updat sub-group 0"); });
  BOOST_TEST(says(text, "'updat sub-group 0'; the nearest one is 'update sub-group 0'"), text);
  BOOST_TEST(says(refusal([&] { return run.starts("update").after("reduce bucket 33"); }), "'reduce bucket 3'"));
  BOOST_TEST(says(refusal([&] { return run.order({"forward", "bakward"}); }), "'forward'"));
  BOOST_TEST(says(refusal([&] { return run.hidden("gater"); }), "'gather'"));
  BOOST_TEST(says(refusal([&] { return run.overlap("gather", "swap_i"); }), "'swap_in'"));
  BOOST_TEST(says(refusal([&] { return run.peak("activation"); }), "'activations'"));
  BOOST_TEST(says(refusal([&] { return run.on(sim::rank{2}); }), "one of 2 ranks, got rank 2"));
  BOOST_TEST(says(refusal([&] { return run.in_step(0); }), "one of the steps 1 to 1, got step 0"));
  BOOST_TEST(says(refusal([&] { return run.in_step(2); }), "one of the steps 1 to 1, got step 2"));
  BOOST_TEST(says(refusal([&] { return run.order({"forward"}); }), "at least two names, got 1"));
}

BOOST_AUTO_TEST_CASE(starts_and_ends_are_compared_on_each_rank) {
  const auto run = run_of(two_ranks());
  BOOST_TEST(run.on(sim::rank{0}).starts("update 0").after("reduce bucket 3"));
  BOOST_TEST(run.starts("forward unit 1").after("gather unit 1"));
  BOOST_TEST(run.ends("gather unit 1").before("forward unit 1"));
  BOOST_TEST(run.starts("gather unit 1").before("forward unit 1"));
  BOOST_TEST(run.starts("gather unit 1").before("forward unit 0"));  // both at 10 us
  BOOST_TEST(!run.starts("swap_in").before("forward unit 0"));
  BOOST_TEST(!run.ends("swap_in").before("forward unit 1"));
  BOOST_TEST(!run.starts("forward").after("gather unit 1"));  // the first forward is before it
}

BOOST_AUTO_TEST_CASE(a_wrong_order_is_shown_with_seed_and_lanes) {
  auto h = two_ranks();
  h.replay = "TROUPE_SEED=7 ./schedule_test";
  const auto wrong = run_of(h).starts("update 0").after("reduce bucket 3");
  BOOST_TEST(!wrong);
  for (const char* part :
       {"step 1: 'update sub-group 0' on rank 1 starts at 0.093000 ms, before 'reduce bucket 3' on rank 1 has ended at "
        "0.095000 ms",
        "\n  seed 7, replay: TROUPE_SEED=7 ./schedule_test", "\n  rank 1 from ", "\n    fabric  |", "\n    shard   |",
        "reduce bucket 3: 0.080000 ms to 0.095000 ms"})
    BOOST_TEST(says(wrong.text(), part), wrong.text() << " | wanted: " << part);
}

BOOST_AUTO_TEST_CASE(instructions_of_different_ranks_are_compared_over_all_ranks) {
  auto h = two_ranks();
  std::erase_if(h.spans, [](const auto& s) {
    return (s.name == forward_1 && s.rank == 0) || (s.name == gather_0 && s.rank == 1);
  });
  const auto run = run_of(std::move(h));
  BOOST_TEST(run.starts("forward unit 1").after("gather unit 0"));
  const auto wrong = run.starts("forward unit 1").before("gather unit 0");
  BOOST_TEST(!wrong);
  BOOST_TEST(says(wrong.text(), "on rank 1 starts at 0.050000 ms, after 'gather unit 0, forward' on rank 0"),
             wrong.text());
}

BOOST_AUTO_TEST_CASE(nothing_to_compare_is_no) {
  const auto run = run_of(two_ranks());
  for (const auto& v :
       {run.starts("undo").after("forward"), run.starts("forward").before("undo"), run.order({"forward", "undo"})}) {
    BOOST_TEST(!v);
    BOOST_TEST(says(v.text(), "'undo' has not started"), v.text());
  }
}

BOOST_AUTO_TEST_CASE(an_instruction_that_never_ends_is_before_nothing) {
  auto h = two_ranks();
  for (auto& s : h.spans)
    if (s.name == reduce && s.rank == 0) s.end_ns = sim::history::never;
  const auto run = run_of(std::move(h)).on(sim::rank{0});
  const auto wrong = run.starts("update").after("reduce");
  BOOST_TEST(!wrong);
  BOOST_TEST(says(wrong.text(), "has ended at never"), wrong.text());
  BOOST_TEST(!run.ends("reduce").before("update"));
}

BOOST_AUTO_TEST_CASE(an_order_holds_on_each_rank_that_runs_all_of_it) {
  const auto run = run_of(two_ranks());
  BOOST_TEST(run.order({"gather unit 0", "forward unit 0", "forward unit 1", "update"}));
  BOOST_TEST(run.on(sim::rank{1}).order({"gather", "swap_in", "reduce"}));
  const auto wrong = run.order({"forward unit 1", "swap_in"});
  BOOST_TEST(!wrong);
  BOOST_TEST(says(wrong.text(),
                  "step 1, rank 0: 'swap_in states of sub-group 0' starts at 0.030000 ms, before "
                  "'forward unit 1' starts at 0.050000 ms"),
             wrong.text());
}

BOOST_AUTO_TEST_CASE(shares_of_time_are_exact) {
  const auto run = run_of(two_ranks());
  // gathers work from 5 to 10 and from 20 to 50 us, compute from 10 to 40 and from 50 to 80, the swap from 30 to 60
  BOOST_TEST(run.hidden("gather").value() == 20.0 / 35);
  BOOST_TEST(run.on(sim::rank{1}).hidden("gather unit 1").value() == 20.0 / 30);
  BOOST_TEST(run.hidden("undo").value() == 1);
  BOOST_TEST(run.overlap("swap_in", "forward").value() == 20.0 / 30);
  BOOST_TEST(run.overlap("forward", "swap_in").value() == 20.0 / 60);
  BOOST_TEST(run.overlap("undo", "forward").value() == 0);
  BOOST_TEST(std::abs(run.idle(plan::lane::compute).value() - 0.4) < 1e-12);
  BOOST_TEST(run.idle(plan::lane::writer).value() == 1);
  BOOST_TEST(run.step_s().value() == 1e-4);
}

BOOST_AUTO_TEST_CASE(quantities_compare_and_say_how_they_were_found) {
  const auto run = run_of(two_ranks());
  BOOST_TEST(run.hidden("gather") > 0.5);
  BOOST_TEST(run.hidden("gather") < run.hidden("gather unit 1"));
  BOOST_TEST(run.hidden("gather").above(0.5));
  const auto no = run.hidden("gather").above(0.9);
  BOOST_TEST(!no);
  for (const char* part : {"wanted above 0.9, got 0.571429 of 'gather' is hidden behind compute: 0.040000 ms of "
                           "0.070000 ms",
                           "\n  seed 7", "\n    fabric  |", "gather unit 1, forward: 0.010000 ms to 0.050000 ms"})
    BOOST_TEST(says(no.text(), part), no.text() << " | wanted: " << part);
  BOOST_TEST(!(run.hidden("gather").below(0.9) && no));
}

BOOST_AUTO_TEST_CASE(peaks_are_those_of_the_fullest_rank_at_its_fullest_moment) {
  const auto run = run_of(two_ranks());
  BOOST_TEST(run.peak("activations").value() == 170);
  BOOST_TEST(run.on(sim::rank{1}).peak("activations").value() == 120);
  BOOST_TEST(run.peak().value() == 210);
  BOOST_TEST(says(run.peak("activations").text(), "170 bytes of activations on rank 0 at 0.020000 ms"),
             run.peak("activations").text());
}

BOOST_AUTO_TEST_CASE(a_failure_is_found_by_its_words) {
  auto h = two_ranks();
  BOOST_TEST(run_of(h).ended_well());
  BOOST_TEST(!run_of(h).failed_with("rank 1"));
  h.steps.push_back({plan::plan_choice::train, 100'000, 130'000,
                     std::make_shared<const core::error>(core::error{core::error_kind::peer_lost, "rank 1 ended"})});
  const auto run = run_of(h);
  BOOST_TEST(run.failed_with("rank 1"));
  BOOST_TEST(!run.failed_with("rank 0"));
  BOOST_TEST(says(run.ended_well().text(), "step 2 failed at 0.130000 ms: rank 1 ended"), run.ended_well().text());
  BOOST_TEST(run.step_s().value() == 1e-4);  // a failed step has no time
  BOOST_TEST(says(refusal([&] { return run.in_step(2).step_s(); }), "no chosen step ended well"));
  BOOST_TEST(says(refusal([&] { return run.in_step(3); }), "the last one failed: rank 1 ended"));
}

BOOST_AUTO_TEST_CASE(a_fault_that_never_happened_is_named) {
  auto h = two_ranks();
  h.faults = {{"kill rank 0", true}, {"kill rank 1 in step 9", false}};
  const auto v = run_of(h).faults_happened();
  BOOST_TEST(!v);
  BOOST_TEST(says(v.text(), "kill rank 1 in step 9"), v.text());
}

BOOST_AUTO_TEST_CASE(a_schedule_is_compared_with_a_file) {
  const variable_scope not_writing("TROUPE_WRITE_SCHEDULES", nullptr);
  const tests::scratch_folder folder;
  const auto file = folder.path() / "schedule.txt";
  const auto run = run_of(two_ranks()).on(sim::rank{1});
  BOOST_TEST(says(refusal([&] { return run.matches_file(file); }), "TROUPE_WRITE_SCHEDULES=1 writes it"));
  {
    const variable_scope writing("TROUPE_WRITE_SCHEDULES", "1");
    BOOST_TEST(run.matches_file(file));
  }
  BOOST_TEST(run.matches_file(file));
  std::ifstream in(file);
  std::string first;
  std::getline(in, first);
  BOOST_TEST(first == "step 1 rank 1 fabric: gather unit 0, forward");
  auto h = two_ranks();
  for (auto& s : h.spans)
    if (s.name == swap_in) s.start_ns = s.moving_ns = 55'000;
  const auto other = run_of(std::move(h)).on(sim::rank{1}).matches_file(file);
  BOOST_TEST(!other);
  for (const char* part : {"schedule.txt:4: another schedule", "\n    - step 1 rank 1 io: swap_in",
                           "\n    + step 1 rank 1 compute: forward unit 1"})
    BOOST_TEST(says(other.text(), part), other.text() << " | wanted: " << part);
}

BOOST_AUTO_TEST_CASE(seeds_are_tried_up_to_the_first_no_which_says_how_to_replay_it) {
  const variable_scope one("TROUPE_SEED", nullptr), many("TROUPE_SEEDS", nullptr);
  uint64_t tried = 0;
  const auto no = sim::for_seeds(500, [&](uint64_t seed) { return ++tried, seed != 3; });
  BOOST_TEST(!no);
  BOOST_TEST(tried == 4U);
  BOOST_TEST(says(no.text(), "the check of seed 3 failed\n  replay: TROUPE_SEED=3 "), no.text());
  BOOST_TEST(sim::for_seeds(5, [](uint64_t seed) { return sim::verdict(seed < 5, "large"); }));
  tried = 0;
  sim::for_seeds(5, [&](uint64_t seed) { tried += says(sim::replay_command(seed), "TROUPE_SEED=") ? 1 : 0; });
  BOOST_TEST(tried == 5U);
  BOOST_TEST(sim::replay_command(4).empty());
}

BOOST_AUTO_TEST_CASE(variables_choose_the_seeds) {
  const variable_scope one("TROUPE_SEED", nullptr), many("TROUPE_SEEDS", "20");
  BOOST_TEST(sim::seeds_to_try(500).second == 20U);
  const variable_scope replayed("TROUPE_SEED", "7");
  BOOST_TEST(sim::seeds_to_try(500).first == 7U);
  BOOST_TEST(sim::seeds_to_try(500).second == 8U);
  const variable_scope wrong("TROUPE_SEED", "seven");
  BOOST_TEST(says(refusal([] { return sim::seeds_to_try(1).first; }), "TROUPE_SEED: wanted a number"));
}

BOOST_AUTO_TEST_SUITE_END()
