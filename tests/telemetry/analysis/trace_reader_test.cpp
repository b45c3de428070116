// Tests the reading of traces of Troupe: plain and packed files give the same steps, damaged ones are refused by name.
#include <boost/test/unit_test.hpp>
#include <random>

#include "telemetry/analysis/causes.hpp"
#include "telemetry/figures/trace.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/telemetry/analysis/made_trace.hpp"
#include "tests/telemetry/analysis/packed_text.hpp"
#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(trace_reader)

using namespace troupe;
using namespace troupe::telemetry;
using tests::check_error;
using tests::check_failed;
using tests::check_ok;

namespace {

std::string whole(const std::string& events) { return "{\"traceEvents\":[" + events + "]}"; }

constexpr const char* lane_name = R"({"name":"thread_name","ph":"M","pid":0,"tid":1,"args":{"name":"compute"}},)";

std::string event_with(const std::string& more) {
  return whole(lane_name + std::string(R"({"name":"forward a","cat":"forward","ph":"X","pid":0,"tid":1)") + more + "}");
}

}  // namespace

BOOST_AUTO_TEST_CASE(plain_and_packed_traces_give_the_same_analysis_to_the_nanosecond) {
  const tests::scratch_folder folder;
  const std::string text = made_trace(made_job{}).text();
  const auto plain = folder.write("trace.json", text);
  const auto one = folder.write("trace.json.gz", packed(text));
  // Members of a packed file follow one another, as those of joined files do.
  const auto two = folder.write("joined", packed(text.substr(0, 1000)) + packed(text.substr(1000)));
  const auto wanted = *check_ok(analyse(*check_ok(read_traces({plain}))));
  for (const auto& file : {one, two}) {
    const auto got = *check_ok(analyse(*check_ok(read_traces({file}))));
    BOOST_TEST_REQUIRE(got.steps.size() == wanted.steps.size());
    for (size_t i = 0; i < got.steps.size(); ++i) BOOST_TEST(got.steps[i].length_ns == wanted.steps[i].length_ns);
    BOOST_TEST(got.changes.front().sentence == wanted.changes.front().sentence);
  }
}

BOOST_AUTO_TEST_CASE(a_trace_as_a_run_writes_it_has_the_times_and_the_order_of_the_plan) {
  for (const auto& step : {played_gpt(2), played_pipeline("1f1b", 2, 2)}) {
    const tests::scratch_folder folder;
    const auto file =
        folder.write("trace.json", "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + trace_names(step) +
                                       trace_events(step, 5, step.front().spans.front().start_ns) + "\n]}\n");
    const auto traces = *check_ok(read_traces({file}));
    BOOST_TEST_REQUIRE(traces.steps.size() == 1U);
    const auto& s = traces.steps.front();
    BOOST_TEST(s.number == 5U);
    BOOST_TEST(s.ranks.size() == step.size());
    size_t instructions = 0, waits = 0, read_waits = 0;
    int64_t first = INT64_MAX, last = 0;
    for (const auto& r : step) {
      instructions += r.plan->instructions.size();
      for (const auto& x : r.plan->instructions) {
        waits += x.after.size();
        first = std::min(first, r.spans[x.id].start_ns), last = std::max(last, r.spans[x.id].end_ns);
      }
    }
    for (const auto& x : s.spans) read_waits += x.after.size();
    BOOST_TEST(s.spans.size() == instructions);
    BOOST_TEST(read_waits == waits);
    const auto made = step_graph::of(s);
    BOOST_TEST(check_ok(made)->bounds().length_ns() == last - first);
    BOOST_TEST(check_ok(made)->replayed(made->measured()) == last - first);
    const auto a = *check_ok(analyse(traces));
    BOOST_TEST(!a.path.empty());
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_trace_or_has_no_steps_is_refused_with_what_was_wanted) {
  const tests::scratch_folder folder;
  const auto refused = [&](const std::string& text, const std::string& why) {
    const auto file = folder.write("t.json", text);
    check_error(read_traces({file}), "'" + file.string() + "'" + why);
  };
  const std::string no_trace =
      ": wanted a trace, an object with 'traceEvents' as troupe train and torch.profiler write it; the file has none";
  const std::string no_steps =
      ": wanted a trace with steps: instructions of troupe train (telemetry.trace), or ProfilerStep annotations of "
      "torch.profiler (call profiler.step() after each step); got ";
  refused("{}", no_trace);
  refused("7", no_trace);
  refused(whole(""), no_steps + "0 events without a step");
  refused(whole(R"({"name":"a","ph":"X","ts":1,"dur":2})"), no_steps + "1 events without a step");
  refused(R"([{"name":"a","ph":"X","ts":1,"dur":2}])", no_steps + "1 events without a step");
  check_failed(read_traces({folder / "none"}), error_kind::bad_input, "none");
  check_error(read_traces({}), "wanted a trace, got none");
  const auto file = folder.write("a.json", made_trace(made_job{}).text());
  check_failed(read_traces({file, file}), error_kind::bad_input, "a trace of Troupe has all ranks of its run");
}

BOOST_AUTO_TEST_CASE(an_instruction_that_is_not_understood_is_refused_with_its_step_rank_and_name) {
  const tests::scratch_folder folder;
  const auto refused = [&](const std::string& more, const std::string& why) {
    const auto file = folder.write("t.json", event_with(more));
    check_failed(read_traces({file}), error_kind::bad_input, why);
  };
  const std::string times = R"(,"ts":0,"dur":1)";
  refused(
      times + R"(,"args":{"step":2,"id":0})",
      "step 2, process 0, 'forward a': the instruction does not say what it waits for (args.after): the trace is of an "
      "older version; train again");
  refused(R"(,"args":{"step":2,"id":0,"after":[]})", "wanted args.id, ts and dur, numbers that fit; got none");
  refused(R"(,"ts":1e300,"dur":1,"args":{"step":2,"id":0,"after":[]})", "wanted args.id, ts and dur");
  refused(R"(,"ts":0,"dur":-1,"args":{"step":2,"id":0,"after":[]})", "wanted a dur of at least 0");
  refused(times + R"(,"args":{"step":2,"id":4294967295,"after":[]})", "wanted args.id");
  refused(times + R"(,"args":{"step":2,"id":0,"after":[7]})",
          "it waits for instruction 7, which the trace does not have");
  refused(times + R"(,"args":{"step":2,"id":0,"after":[-1]})", "which the trace does not have");
  refused(R"(,"pid":"a")" + times + R"(,"args":{"step":2,"id":0,"after":[]})", "wanted the number of a rank as pid");
  refused(R"(,"tid":9)" + times + R"(,"args":{"step":2,"id":0,"after":[]})",
          "wanted a thread of the name control, compute, fabric, shard, writer or io, got ''");
  const auto itself = folder.write("t.json", event_with(times + R"(,"args":{"step":2,"id":0,"after":[0]})"));
  check_failed(analyse(*check_ok(read_traces({itself}))), error_kind::bad_input,
               "step 2, rank 0, 'forward a': it waits for itself");
  const std::string one =
      R"({"name":"a","cat":"f","ph":"X","pid":0,"tid":1,"ts":0,"dur":1,"args":{"step":2,"id":0,"after":[]}})";
  const auto twice = folder.write("t.json", whole(lane_name + one + "," + one));
  check_failed(read_traces({twice}), error_kind::bad_input, "two instructions have the same id");
}

BOOST_AUTO_TEST_CASE(truncated_and_damaged_files_are_refused_or_read_and_never_crash) {
  const tests::scratch_folder folder;
  made_job job;
  job.steps = 1, job.layers = 2;
  const std::string text = made_trace(job).text(), small = packed(text);
  std::mt19937_64 random(3);
  for (int i = 0; i < 150; ++i) {
    const std::string& from = i % 2 == 0 ? text : small;
    const auto cut = folder.write("cut", from.substr(0, random() % from.size()));
    BOOST_TEST(!read_traces({cut}));
    std::string changed = from;
    for (int n = 0; n < 3; ++n) changed[random() % changed.size()] = static_cast<char>(random() % 256);
    const auto damaged = folder.write("damaged", changed);
    const auto read = read_traces({damaged});
    if (!read) {
      BOOST_TEST(!read.error().text.empty());
    } else if (const auto a = analyse(*read); a) {
      for (const auto& s : a->steps) {
        int64_t parts = 0;
        for (const auto& p : s.path) parts += p.ns;
        BOOST_TEST(parts == s.length_ns);
      }
    }
  }
  check_failed(read_traces({folder.write("cut.gz", small.substr(0, small.size() / 2))}), error_kind::bad_input,
               "is not a valid gzip file: it is truncated at byte");
  check_failed(read_traces({folder.write("cut.json", text.substr(0, text.size() / 2))}), error_kind::bad_input,
               "broken JSON at byte");
}

BOOST_AUTO_TEST_SUITE_END()
