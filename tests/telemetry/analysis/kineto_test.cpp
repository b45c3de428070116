// Tests the reading of traces of torch.profiler, made by hand in the form of its files: launches and kernels, streams
// that wait for each other, collectives over files, clocks that differ, a CPU alone.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "telemetry/analysis/causes.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/telemetry/analysis/packed_text.hpp"

BOOST_AUTO_TEST_SUITE(kineto)

using namespace troupe;
using namespace troupe::telemetry;
using tests::check_error;
using tests::check_failed;
using tests::check_ok;

namespace {

/// Assembles a file of torch.profiler. Times are in microseconds.
struct profiler_file {
  std::string events;
  uint64_t correlation = 0;

  void add(const std::string& name, const std::string& category, const std::string& tid, double at, double length,
           const std::string& arguments = "") {
    events += fmt::format(R"({}{{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},)"
                          R"("ts":{:.3f},"dur":{:.3f},"args":{{"External id":3{}}}}})",
                          events.empty() ? "" : ",\n", category, name, tid, at, length, arguments);
  }
  void step(uint64_t number, double at, double length) {
    add(fmt::format("ProfilerStep#{}", number), "user_annotation", "10", at, length);
  }
  /// A call at `launched`, of 5 us, and its kernel.
  void kernel(const std::string& name, uint32_t stream, double launched, double at, double length,
              const std::string& more = "") {
    const std::string link = fmt::format(R"(,"correlation":{})", ++correlation);
    add("cudaLaunchKernel", "cuda_runtime", "10", launched, 5, link);
    add(name, "kernel", fmt::to_string(stream), at, length, fmt::format(R"({},"stream":{}{})", link, stream, more));
  }
  void synchronise(double at, double end) { add("cudaDeviceSynchronize", "cuda_runtime", "10", at, end - at); }

  [[nodiscard]] std::string text(int rank) const {
    const std::string info =
        rank < 0 ? "" : fmt::format(R"("distributedInfo":{{"backend":"nccl","rank":{},"world_size":2}},)", rank);
    return fmt::format("{{\"schemaVersion\":1,{}\"traceEvents\":[\n{}\n]}}", info, events);
  }
};

const std::string all_reduce = R"(,"Collective name":"allreduce","Process Group Name":"0")";

/// Returns a file of two steps of a rank: two products, an all-reduce in a stream of its own, an optimizer. The
/// products take `factor` times as long; all times are later by `ahead`. `end` of a step is when its all-reduce ends.
profiler_file two_steps(double factor, double end, double ahead) {
  profiler_file f;
  for (uint32_t s = 0; s < 2; ++s) {
    const double t = ahead + 10'000.0 * s;
    f.step(4 + s, t, 9000);
    f.kernel("sm90_gemm_a", 7, t + 10, t + 20, 1000 * factor);
    f.kernel("sm90_gemm_b", 7, t + 20, t + 21 + 1000 * factor, 1000 * factor);
    const double computed = t + 21 + 2000 * factor;
    f.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, t + 30, computed + 4, t + end - (computed + 4), all_reduce);
    f.kernel("multi_tensor_apply_kernel", 7, t + 40, t + end + 3, 300);
    f.synchronise(t + 50, t + end + 310);
  }
  return f;
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_wait_for_their_launch_their_stream_and_work_of_other_streams) {
  const tests::scratch_folder folder;
  const auto file = folder.write("a.json", two_steps(1, 2200, 0).text(0));
  const auto traces = *check_ok(read_traces({file}));
  BOOST_TEST((traces.program == trace_program::torch_profiler));
  BOOST_TEST_REQUIRE(traces.steps.size() == 2U);
  BOOST_TEST(traces.notes.empty());
  const auto& s = traces.steps.back();
  BOOST_TEST(s.number == 5U);
  BOOST_TEST(s.spans.size() == 9U);  // four launches, four kernels, a call that waits
  const auto a = *check_ok(analyse(traces));
  int64_t parts = 0;
  for (const auto& p : a.steps.back().path) parts += p.ns;
  BOOST_TEST(parts == a.steps.back().length_ns);
  // Step 5 begins with its first launch, at 10 us, and ends with the call that waits for the device, at 2510 us.
  BOOST_TEST(a.steps.back().length_ns == 2'500'000);
  BOOST_TEST_REQUIRE(!a.path.empty());
  BOOST_TEST(a.path.front().kind == "product");
  BOOST_TEST(a.path.front().ns == 2'000'000);
  BOOST_TEST_REQUIRE(a.exposed.size() == 1U);
  BOOST_TEST(a.exposed.front().kind == "allreduce");
  for (const auto& c : a.changes) BOOST_TEST(c.key.empty(), c.sentence);
}

BOOST_AUTO_TEST_CASE(files_of_several_ranks_are_one_step_and_the_slow_rank_is_named) {
  const tests::scratch_folder folder;
  // Rank 1 computes until 4021 us; its clock is 5 ms ahead.
  const auto a = folder.write("0.pt.trace.json", two_steps(1, 4300, 0).text(0));
  const auto b = folder.write("1.pt.trace.json.gz", packed(two_steps(2, 4300, 5000).text(1)));
  for (const auto& files : {std::vector{a, b}, std::vector{b, a}}) {
    const auto traces = *check_ok(read_traces(files));
    BOOST_TEST_REQUIRE(traces.notes.size() == 1U);
    BOOST_TEST(tests::has(traces.notes.front(), "was moved by"), traces.notes.front());
    const auto found = *check_ok(analyse(traces));
    BOOST_TEST(found.ranks == 2U);
    BOOST_TEST_REQUIRE(!found.changes.empty());
    const auto& c = found.changes.front();
    BOOST_TEST(c.is_cause);
    BOOST_TEST((c.sort == change_sort::equal_rank && c.subject == "1"), c.sentence);
    BOOST_TEST(c.gain_s == 2e-3, boost::test_tools::tolerance(0.05));
    BOOST_TEST_REQUIRE(found.waits.size() == 1U);
    BOOST_TEST((found.waits[0].rank == 0U && found.waits[0].for_rank == 1U));
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_waits_for_launches_has_the_host_as_its_cause) {
  const tests::scratch_folder folder;
  profiler_file f;
  f.step(1, 0, 5000);
  for (uint32_t i = 0; i < 20; ++i) f.kernel(fmt::format("small_{}", i), 7, 200.0 * i, 200.0 * i + 8, 20);
  const auto a = *check_ok(analyse(*check_ok(read_traces({folder.write("a.json", f.text(-1))}))));
  BOOST_TEST_REQUIRE(!a.changes.empty());
  BOOST_TEST((a.changes.front().sort == change_sort::free_host), a.changes.front().sentence);
  BOOST_TEST(a.changes.front().is_cause);
  BOOST_TEST(a.changes.front().share > 0.8);
}

BOOST_AUTO_TEST_CASE(work_of_the_step_before_belongs_to_the_step_before) {
  const tests::scratch_folder folder;
  profiler_file f;
  // The host runs ahead: the kernels of step 2 start when those of step 1 have ended, after step 2 was launched.
  f.step(1, 0, 100), f.step(2, 100, 100);
  f.kernel("gemm", 7, 10, 20, 1000);
  f.kernel("gemm", 7, 110, 1020, 1000);
  const auto file = folder.write("a.json", f.text(0));
  const auto a = *check_ok(analyse(*check_ok(read_traces({file}))));
  BOOST_TEST_REQUIRE(a.steps.size() == 2U);
  BOOST_TEST(a.steps[0].length_ns == 1'010'000);
  BOOST_TEST(a.steps[1].length_ns == 1'000'000);
}

BOOST_AUTO_TEST_CASE(a_trace_of_a_cpu_has_its_innermost_operations_and_its_loader) {
  const tests::scratch_folder folder;
  profiler_file f;
  f.step(0, 0, 2000);
  f.add("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", "10", 5, 900);
  f.add("aten::collate", "cpu_op", "10", 20, 500);
  f.add("aten::linear", "cpu_op", "10", 910, 600);
  f.add("aten::addmm", "cpu_op", "10", 915, 590);
  f.add("Optimizer.step#Adam.step", "cpu_op", "10", 1520, 100);
  const auto traces = *check_ok(read_traces({folder.write("a.json", f.text(-1))}));
  const auto& s = traces.steps.front();
  BOOST_TEST_REQUIRE(s.spans.size() == 3U);
  BOOST_TEST(s.names.at(s.spans[1].name) == "aten::addmm");
  const auto a = *check_ok(analyse(traces));
  BOOST_TEST((a.changes.front().sort == change_sort::free_loading), a.changes.front().sentence);
}

BOOST_AUTO_TEST_CASE(events_that_are_not_understood_are_named) {
  const tests::scratch_folder folder;
  auto f = two_steps(1, 2200, 0);
  f.add("x", "mtia_runtime", "3", 100, 5);
  f.add("y", "mtia_runtime", "3", 200, 5);
  f.add("z", "ac2g", "3", 200, 5);
  const auto traces = *check_ok(read_traces({folder.write("a.json", f.text(0))}));
  BOOST_TEST_REQUIRE(traces.notes.size() == 1U);
  BOOST_TEST(traces.notes.front() == "not understood and left out: 2 events of category 'mtia_runtime'");
}

BOOST_AUTO_TEST_CASE(files_that_do_not_belong_together_are_refused) {
  const tests::scratch_folder folder;
  const auto a = folder.write("a.json", two_steps(1, 2200, 0).text(3));
  const auto b = folder.write("b.json", two_steps(1, 2200, 0).text(3));
  check_error(read_traces({a, b}), "'" + a.string() + "' and '" + b.string() +
                                       "' are both of rank 3: wanted a file for each rank of one run");
  profiler_file other;
  other.step(77, 0, 100);
  other.kernel("gemm", 7, 1, 2, 3);
  const auto c = folder.write("c.json", other.text(1));
  check_error(read_traces({a, c}), "'" + a.string() + "': wanted a step that all files have, got none");
  profiler_file empty;
  empty.step(1, 0, 100);
  const auto d = folder.write("d.json", empty.text(0));
  check_failed(read_traces({d}), error_kind::bad_input, "step 1 has no kernel and no operation");
}

BOOST_AUTO_TEST_SUITE_END()
