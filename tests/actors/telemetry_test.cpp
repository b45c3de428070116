// The telemetry actor writes the steps that it was told to, as one JSON file, and complains once where it cannot.
#include "actors/telemetry.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/actors/one_thread.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

std::shared_ptr<const run_contexts> spans_of(const plan::shared_plans& plans) {
  run_contexts out;
  for (const auto& p : plans) {
    out.push_back(context_of(p));
    for (const auto& x : p->instructions) {
      out.back()->spans[x.id].start_ns = 1000 * (x.id + 1);
      out.back()->spans[x.id].end_ns = 1000 * (x.id + 2);
    }
  }
  return std::make_shared<const run_contexts>(std::move(out));
}

struct fixture {
  void record(const telemetry_actor& to, uint64_t step) {
    post(to, record_run{step, spans});
    world.run();
  }
  tests::scratch_folder scratch;
  plan::shared_plans plans = small_plans(2);
  std::shared_ptr<const run_contexts> spans = spans_of(plans);
  one_thread world;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(telemetry, fixture)

BOOST_AUTO_TEST_CASE(the_file_is_valid_json_with_the_chosen_steps_and_names_of_ranks_and_lanes) {
  telemetry_setup setup;
  setup.trace_file = scratch / "trace.json";
  setup.from_step = 2;
  setup.steps = 2;
  const auto actor = world.spawn(telemetry_impl, setup);
  for (uint64_t step = 0; step < 2; ++step) record(actor, step);
  BOOST_TEST(!std::filesystem::exists(setup.trace_file));
  for (uint64_t step = 2; step < 6; ++step) record(actor, step);
  std::ifstream in(setup.trace_file);
  const auto trace = nlohmann::json::parse(in);
  size_t drawn = 0, names = 0;
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M") {
      ++names;
      continue;
    }
    ++drawn;
    const auto step = e.at("args").at("step").get<uint64_t>();
    BOOST_TEST((step == 2 || step == 3));
  }
  BOOST_TEST(drawn == 2 * (plans[0]->instructions.size() + plans[1]->instructions.size()));
  BOOST_TEST(names == 2 * (1 + plan::num_lanes));
}

BOOST_AUTO_TEST_CASE(a_trace_that_cannot_be_written_is_complained_of_once) {
  uint64_t complaints = 0;
  telemetry_setup setup;
  setup.trace_file = scratch / "no such folder/trace.json";
  setup.steps = 10;
  setup.complain = [&](const core::error&) { ++complaints; };
  const auto actor = world.spawn(telemetry_impl, setup);
  for (uint64_t step = 0; step < 3; ++step) record(actor, step);
  BOOST_TEST(complaints == 1U);
}

BOOST_AUTO_TEST_CASE(without_a_file_nothing_is_kept) {
  telemetry_setup setup;
  setup.steps = 10;
  setup.complain = [](const core::error& e) { BOOST_FAIL(e.text); };
  record(world.spawn(telemetry_impl, setup), 0);
  BOOST_TEST(std::filesystem::is_empty(scratch.path()));
}

BOOST_AUTO_TEST_SUITE_END()
