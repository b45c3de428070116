// Tests the names in a trace: ranks, lanes, and the stages of a model that is cut.
#include "telemetry/figures/trace.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(trace)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

struct names {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  nlohmann::json events;
};

names names_of(const std::vector<rank_spans>& step) {
  names out;
  const auto all = nlohmann::json::parse("[" + trace_names(step) + trace_events(step, 0, 0) + "]");
  for (const auto& e : all) {
    if (e.at("ph") == "X") out.events.push_back(e);
    if (e.at("name") == "process_name") out.processes[e.at("pid")] = e.at("args").at("name");
    if (e.at("name") == "thread_name") out.threads[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_did_not_run_has_no_event) {
  auto step = played_gpt(2);
  const size_t all = names_of(step).events.size();
  for (const uint32_t id : step.front().plan->lanes[static_cast<size_t>(plan::lane::shard)])
    step.front().spans[id] = {not_run_ns, not_run_ns};
  const auto n = names_of(step);
  BOOST_TEST(n.events.size() == all - step.front().plan->lanes[static_cast<size_t>(plan::lane::shard)].size());
  for (const auto& e : n.events) BOOST_TEST(e.at("ts").get<double>() >= 0);
}

BOOST_AUTO_TEST_CASE(a_rank_that_has_the_whole_model_is_a_process_with_its_lanes) {
  const auto n = names_of(played_gpt(2));
  BOOST_TEST(n.processes.at(1) == "rank 1");
  BOOST_TEST(n.threads.size() == 2 * plan::num_lanes);
  BOOST_TEST((n.threads.at({1, 1})) == "compute");
  for (const auto& e : n.events) BOOST_TEST(!e.at("args").contains("stage"));
}

BOOST_AUTO_TEST_CASE(ranks_of_a_pipeline_are_named_with_their_stages) {
  const auto n = names_of(played_pipeline());
  BOOST_TEST(n.processes.at(3) == "rank 3, stage 1");
  BOOST_TEST((n.threads.at({3, 1})) == "compute, stage 1");
  BOOST_TEST((n.threads.at({3, 2})) == "fabric");
}

BOOST_AUTO_TEST_CASE(each_stage_of_a_rank_has_a_thread_of_its_own) {
  const auto n = names_of(played_pipeline("interleaved", 2, 2));
  BOOST_TEST(n.processes.at(0) == "rank 0, stages 0 and 2");
  BOOST_TEST((n.threads.at({2, 1})) == "compute, stage 1, chunk 0");
  BOOST_TEST((n.threads.at({2, 1 + int(plan::num_lanes)})) == "compute, stage 3, chunk 1");
  for (const auto& e : n.events) {
    const int thread = e.at("tid");
    BOOST_TEST(n.threads.contains({e.at("pid"), thread}));
    if (e.at("cat") != "forward") continue;
    const int stage = e.at("args").at("stage");
    BOOST_TEST(thread == 1 + (stage / 2) * int(plan::num_lanes), e.dump());
  }
}

BOOST_AUTO_TEST_CASE(an_event_names_what_it_waits_for_and_a_collective_its_place_in_its_communicator) {
  const auto step = played_gpt(2);
  size_t collectives = 0, waits = 0;
  for (const auto& e : names_of(step).events) {
    const auto& x = step[e.at("pid")].plan->instructions[e.at("args").at("id")];
    BOOST_TEST((e.at("args").at("after").get<std::vector<uint32_t>>() == x.after), e.dump());
    waits += x.after.size();
    BOOST_TEST(e.at("args").contains("collective") == (x.sequence != plan::none), e.dump());
    if (x.sequence == plan::none) continue;
    ++collectives;
    BOOST_TEST((e.at("args").at("collective").get<std::vector<uint32_t>>() ==
                std::vector<uint32_t>{x.communicator, x.sequence}));
  }
  BOOST_TEST(collectives > 4U);
  BOOST_TEST(waits > 10U);
}

BOOST_AUTO_TEST_CASE(times_of_another_machine_lie_on_one_line_and_the_trace_says_by_how_much_they_were_moved) {
  auto step = played_gpt(2);
  BOOST_TEST(trace_clocks(step).empty());
  const auto before = step[1].spans;
  shift(step[1], {-2'000'500, 1'500});
  for (size_t i = 0; i < before.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(step[1].spans[i].start_ns == before[i].start_ns - 2'000'500);
    BOOST_TEST(step[1].spans[i].length_ns() == before[i].length_ns());
  }
  const auto x = nlohmann::json::parse("{" + trace_clocks(step) + "\"traceEvents\":[]}");
  const auto& clocks = x.at("otherData").at("clocks");
  BOOST_TEST(clocks.size() == 1U);
  BOOST_TEST(clocks.at("rank 1").at("offset_us") == -2000.5);
  BOOST_TEST(clocks.at("rank 1").at("error_us") == 1.5);
}

BOOST_AUTO_TEST_SUITE_END()
