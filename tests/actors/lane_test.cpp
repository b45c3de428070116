// Tests one lane actor alone: messages that arrive early, late or from other runs, and its calls of the executor.
#include <boost/test/unit_test.hpp>

#include "tests/actors/one_thread.hpp"
#include "tests/actors/ranks.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

struct seen {
  std::vector<uint32_t> started;
  std::vector<std::string> aborted;
  bool slow = false;            // true: instructions stay pending until the executor's wake-up names them
  std::string refuse;           // text of the error with which start() fails; empty: it succeeds
  std::vector<size_t> settled;  // number of instructions that had started at each call of settle()
  std::string unsettled;        // text of the error with which settle() fails; empty: it succeeds
};

class watched_executor final : public executor {
 public:
  explicit watched_executor(std::shared_ptr<seen> s) : seen_(std::move(s)) {}
  void begin(std::shared_ptr<step_context>) override {}
  core::result<progress> start(const plan::instruction& x) override {
    seen_->started.push_back(x.id);
    if (!seen_->refuse.empty()) return core::fail(core::error_kind::io, seen_->refuse);
    return seen_->slow ? progress::pending : progress::done;
  }
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override { return static_cast<uint32_t>(sequence); }
  core::result<void> settle() override {
    seen_->settled.push_back(seen_->started.size());
    if (!seen_->unsettled.empty()) return core::fail(core::error_kind::numeric, seen_->unsettled);
    return {};
  }
  void abort(const core::error& why) override { seen_->aborted.push_back(why.text); }

 private:
  std::shared_ptr<seen> seen_;
};

struct fixture {
  explicit fixture(plan::lane which = plan::lane::compute) {
    links->rank = world.spawn([this]() -> rank_actor::behavior_type {
      return {[](const run_plan&) {}, [this](const lane_progress& m) { reported.push_back(m.num_ended); },
              [this](const run_failed& m) { failures.push_back(m.text); }, [](const give_up&) {},
              [](const look_around&) {}};
    });
    lane = world.spawn(
        lane_impl, which, 0U, [s = hands] { return std::make_unique<watched_executor>(s); }, links);
    for (auto& l : links->lanes) l = lane;
  }
  ~fixture() {
    links->rank = nullptr;
    for (auto& l : links->lanes) l = nullptr;
    lane = nullptr;
  }

  void tell(auto m) {
    post(lane, std::move(m));
    world.run();
  }
  std::shared_ptr<step_context> context(uint64_t run) {
    step_order o;
    o.run = run;
    return context_of(p, o);
  }
  /// Returns all instructions of other lanes for which this lane's instructions wait.
  std::vector<uint32_t> awaited() const {
    std::vector<uint32_t> out;
    for (uint32_t id : mine())
      for (uint32_t on : p->instructions[id].after)
        if (p->instructions[on].lane != plan::lane::compute) out.push_back(on);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  const std::vector<uint32_t>& mine() const { return p->lanes[static_cast<size_t>(plan::lane::compute)]; }

  std::shared_ptr<const plan::rank_plan> p = small_plans(2, 3, 3).front();
  std::shared_ptr<seen> hands = std::make_shared<seen>();
  std::vector<uint32_t> reported;
  std::vector<std::string> failures;
  std::shared_ptr<rank_links> links = std::make_shared<rank_links>();
  one_thread world;
  lane_actor lane;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(lane, fixture)

BOOST_AUTO_TEST_CASE(endings_that_come_before_their_run_are_kept_for_it) {
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  BOOST_TEST(hands->started.empty());
  tell(begin_run{context(1), 1000});
  BOOST_TEST(hands->started == mine(), boost::test_tools::per_element());
  BOOST_TEST(reported.back() == mine().size());
}

BOOST_AUTO_TEST_CASE(endings_of_the_run_after_the_next_are_kept_too) {
  for (uint32_t on : awaited()) tell(instruction_ended{2, on});
  tell(begin_run{context(1), 1000});
  BOOST_TEST(hands->started.empty());
  tell(begin_run{context(2), 1000});
  BOOST_TEST(hands->started.size() == mine().size());
}

BOOST_AUTO_TEST_CASE(endings_and_windows_of_earlier_runs_are_ignored) {
  tell(begin_run{context(2), 0});
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(extend_window{1, 1000});
  BOOST_TEST(hands->started.empty());
  tell(extend_window{2, 1000});
  BOOST_TEST(hands->started.empty());
  for (uint32_t on : awaited()) tell(instruction_ended{2, on});
  BOOST_TEST(hands->started.size() == mine().size());
}

BOOST_AUTO_TEST_CASE(nothing_starts_beyond_the_window) {
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 3});
  BOOST_TEST(hands->started.size() == 3U);
  tell(extend_window{1, 5});
  BOOST_TEST(hands->started.size() == 5U);
}

BOOST_AUTO_TEST_CASE(progress_is_reported_in_batches_and_at_the_end) {
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 1000});
  BOOST_REQUIRE(mine().size() > progress_batch);
  std::vector<uint32_t> wanted;
  for (uint32_t n = progress_batch; n < mine().size(); n += progress_batch) wanted.push_back(n);
  wanted.push_back(static_cast<uint32_t>(mine().size()));
  BOOST_TEST(reported == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_a_run_has_begun_is_over_before_the_rank_hears_of_its_end) {
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 1000});
  BOOST_TEST(hands->settled == std::vector<size_t>{mine().size()}, boost::test_tools::per_element());
  BOOST_TEST(reported.back() == mine().size());
}

BOOST_AUTO_TEST_CASE(work_that_turns_out_bad_at_the_end_of_a_run_fails_it) {
  hands->unsettled = "the loss is nan";
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 1000});
  BOOST_TEST(failures == std::vector<std::string>{"the loss is nan"}, boost::test_tools::per_element());
  BOOST_TEST((reported.empty() || reported.back() < mine().size()));
}

BOOST_AUTO_TEST_CASE(the_compute_lane_does_one_instruction_at_a_time) {
  hands->slow = true;
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 1000});
  for (size_t i = 0; i < mine().size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_REQUIRE(hands->started.size() == i + 1);
    tell(wake{mine()[i]});
  }
  BOOST_TEST(reported.back() == mine().size());
}

BOOST_AUTO_TEST_CASE(an_error_is_reported_once_with_the_instruction_and_nothing_starts_any_more) {
  hands->refuse = "the disk is full";
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 1000});
  tell(extend_window{1, 2000});
  BOOST_TEST(hands->started.size() == 1U);
  BOOST_REQUIRE(failures.size() == 1U);
  BOOST_TEST(failures.front() == p->describe(mine().front()) + ": the disk is full");
}

BOOST_AUTO_TEST_CASE(a_lane_that_was_told_to_give_up_aborts_and_starts_nothing) {
  tell(give_up{core::error_kind::stopped, "enough"});
  BOOST_REQUIRE(hands->aborted.size() == 1U);
  BOOST_TEST(hands->aborted.front() == "enough");
  for (uint32_t on : awaited()) tell(instruction_ended{1, on});
  tell(begin_run{context(1), 1000});
  BOOST_TEST(hands->started.empty());
}

BOOST_AUTO_TEST_CASE(a_wake_without_a_run_is_harmless) {
  tell(wake{3});
  BOOST_TEST(failures.empty());
}

BOOST_AUTO_TEST_SUITE_END()
