// Tests the times of a step's instructions that lanes read from the far device's events, and the files that a session
// makes of them.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/clock.hpp"
#include "tests/far/device.hpp"
#include "tests/far/late.hpp"
#include "tests/parity/places.hpp"

BOOST_AUTO_TEST_SUITE(spans)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const settings two_ranks_there = {"device=cuda", "parallel.data=2"};
constexpr int64_t slack_ns = 50'000'000;  // between the host's clock and an event, on a busy machine

std::vector<settings> places_of_states() {
  return {stage(0), stage(3), stage(2) + settings{zero + "offload_optimizer.device=cpu"}};
}

/// Checks that the instructions of a step that began at `begun_ns` and has ended have times: lane by lane one after the
/// other.
void check_times(const telemetry::rank_spans& rank, int64_t begun_ns) {
  const int64_t over_ns = core::now_ns();
  BOOST_TEST_REQUIRE(rank.spans.size() == rank.plan->instructions.size());
  std::map<plan::lane, int64_t> computed;  // nanoseconds of work
  for (const auto& x : rank.plan->instructions) {
    if (x.lane == plan::lane::control || !rank.acted(x.guard)) continue;  // batches are loaded before the step
    const auto& span = rank.spans[x.id];
    BOOST_TEST_CONTEXT(rank.plan->describe(x.id)) {
      BOOST_TEST(span.start_ns >= begun_ns);
      BOOST_TEST(span.end_ns >= span.start_ns);
      BOOST_TEST(span.end_ns <= over_ns + slack_ns);
      for (const uint32_t on : x.after)
        if (const auto& before = rank.plan->instructions[on];
            before.lane == x.lane && x.lane == plan::lane::compute && rank.acted(before.guard))
          BOOST_TEST(rank.spans[on].end_ns <= span.start_ns, "it begins before the end of " << rank.plan->describe(on));
    }
    computed[x.lane] += span.length_ns();
  }
  if (far::is_late()) return;  // streams may do all work after it was requested, at once
  BOOST_TEST(computed[plan::lane::compute] > 0);
  BOOST_TEST(computed[plan::lane::shard] > 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_instruction_has_its_time_on_prompt_and_on_late_streams) {
  const small_job job;
  for (const settings& place : places_of_states())
    for (const int seed : {-1, 0, 1}) BOOST_TEST_CONTEXT(text_of(place) << ", seed " << seed) {
        std::optional<far::late_device> late;
        if (seed >= 0) late.emplace(static_cast<uint64_t>(seed));
        std::shared_ptr<const std::vector<telemetry::rank_spans>> seen;
        actors::session_hooks hooks;
        hooks.on_spans = [&](uint64_t, const auto& spans) { seen = spans; };
        auto s = actors::session::open(job.config(place + two_ranks_there), std::move(hooks));
        BOOST_TEST_REQUIRE(s.has_value(), (s ? "" : s.error().text));
        for (int i = 0; i < 2; ++i) {  // events are recorded again in the second step
          const int64_t begun_ns = core::now_ns();
          step_of(**s);
          BOOST_TEST_REQUIRE((seen != nullptr && seen->size() == 2));
          for (const auto& rank : *seen) check_times(rank, begun_ns);
          seen.reset();
        }
      }
}

BOOST_AUTO_TEST_CASE(a_session_writes_trace_report_and_steps) {
  const small_job job;
  const fs::path out = job.folder() / "out";
  fs::create_directories(out);
  size_t instructions = 0;
  {
    const far::late_device late(1);
    auto s = job.open(stage(3) + two_ranks_there +
                      settings{"output=" + out.string(), "telemetry.json_lines=true", "telemetry.trace=true",
                               "telemetry.trace_from_step=1", "telemetry.trace_steps=1"});
    for (int i = 0; i < 2; ++i) step_of(*s);
    for (const uint32_t rank : {0U, 1U}) instructions += s->training_plan(rank).instructions.size();
    BOOST_TEST(s->finish().curves_complete);
  }
  const auto trace = nlohmann::json::parse(scratch_folder::read(out / "trace.json"));
  std::set<std::string> lanes;
  size_t drawn = 0;
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") {
      lanes.insert(e.at("args").at("name").get<std::string>());
      continue;
    }
    ++drawn;
    BOOST_TEST(e.at("dur").get<double>() >= 0);
  }
  BOOST_TEST(drawn == instructions);
  for (const char* lane : {"compute", "shard", "fabric"}) BOOST_TEST(lanes.contains(lane), lane);
  const std::string steps = scratch_folder::read(out / "steps.jsonl");
  BOOST_TEST(std::count(steps.begin(), steps.end(), '\n') == 2);
  BOOST_TEST(scratch_folder::read(out / "report.html").find(" after 2 of 10 steps") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
