// Tests the files that a host program's session writes, refuses to write, and leaves when it ends, without the command
// line.
#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "telemetry/curves/step_values.hpp"
#include "tests/comma_locale.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_telemetry)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

size_t lines_in(const fs::path& file) {
  const std::string text = scratch_folder::read(file);
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

BOOST_AUTO_TEST_CASE(destroying_a_session_writes_the_files_that_finish_writes) {
  const small_job job;
  fs::create_directories(job.folder() / "out");
  {
    auto s = job.open({"output=" + (job.folder() / "out").string(), "telemetry.json_lines=true", "parallel.data=2"});
    for (int i = 0; i < 3; ++i) step_of(*s);
  }
  BOOST_TEST(lines_in(job.folder() / "out/steps.jsonl") == 3U);
  BOOST_TEST(scratch_folder::read(job.folder() / "out/report.html").find(">stopped</span> after 3 of 10 steps") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_comma_locale_of_the_host_changes_no_file) {
  const small_job job;
  fs::create_directories(job.folder() / "out");
  {
    const comma_locale here;
    auto s = job.open({"output=" + (job.folder() / "out").string(), "telemetry.json_lines=true", "parallel.data=2",
                       "telemetry.trace=true"});
    for (int i = 0; i < 3; ++i) step_of(*s);
    (void)s->finish();
  }
  // A comma between two digits is a decimal point written in the locale's form: in lists, a comma is next to a space, a
  // bracket or a quote.
  const std::regex decimal_comma("\"(ts|dur|flops|loss|lr|grad_norm|waited_us)\": *-?[0-9]+,[0-9]");
  for (const char* name : {"out/steps.jsonl", "out/trace.json"}) {
    const std::string text = scratch_folder::read(job.folder() / name);
    BOOST_TEST(!text.empty(), name);
    BOOST_TEST(!std::regex_search(text, decimal_comma), name);
  }
  BOOST_TEST(nlohmann::json::accept(scratch_folder::read(job.folder() / "out/trace.json")));
  const std::string page = scratch_folder::read(job.folder() / "out/report.html");
  const std::regex path("d=\"M([^\"]*)\"");
  size_t paths = 0;
  for (auto at = std::sregex_iterator(page.begin(), page.end(), path); at != std::sregex_iterator(); ++at, ++paths)
    BOOST_TEST((*at)[1].str().find(',') == std::string::npos, (*at)[1].str().substr(0, 80));
  BOOST_TEST(paths > 0U);
}

BOOST_AUTO_TEST_CASE(without_an_output_folder_a_session_leaves_nothing_behind) {
  const small_job job;
  {
    auto s = job.open({"output=" + (job.folder() / "nowhere").string()});
    step_of(*s);
    const auto records = s->finish();
    BOOST_TEST(records.report_file.empty());
    BOOST_TEST(records.curves_complete);
    BOOST_TEST(s->finish().report_file.empty());
  }
  BOOST_TEST(!fs::exists(job.folder() / "nowhere"));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_stops_the_first_step_and_nothing_else) {
  const small_job job;
  job.folder().write("taken", "a file");
  auto s = job.open({"csv_monitor.enabled=true", "csv_monitor.output_path=" + (job.folder() / "taken").string()});
  const auto refused = s->open_records();
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.starts_with("csv_monitor: cannot make the folder "), refused.error().text);
  BOOST_TEST(!s->step().has_value());
  BOOST_TEST(s->steps_done() == 0U);
  fs::remove(job.folder() / "taken");
  BOOST_TEST(step_of(*s).step == 1U);
  BOOST_TEST(s->finish().curves_complete);
  BOOST_TEST(fs::exists(job.folder() / "taken/DeepSpeedJobName/Train_Samples_lr.csv"));
}

BOOST_AUTO_TEST_CASE(loading_an_earlier_step_cuts_the_curves_there) {
  const small_job job;
  const auto file = job.folder() / "out/steps.jsonl";
  const auto steps_in = [&] {
    std::vector<uint64_t> out;
    std::istringstream in(scratch_folder::read(file));
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line).at("step"));
    return out;
  };
  auto s = job.open({"output=" + (job.folder() / "out").string(), "telemetry.json_lines=true", "parallel.data=2"});
  const auto train = [&](int steps) {
    for (int i = 0; i < steps; ++i) step_of(*s);
  };
  train(2);
  // The checkpoint is written outside of the output folder.
  BOOST_TEST_REQUIRE(s->save({.root = job.folder() / "saved"}).has_value());
  train(3);
  BOOST_TEST_REQUIRE(s->load(job.folder() / "saved").has_value());
  train(1);
  BOOST_TEST_REQUIRE(s->load(job.folder() / "saved").has_value());
  train(2);
  BOOST_TEST(s->finish().curves_complete);
  const std::vector<uint64_t> one_curve{1, 2, 3, 4};
  BOOST_TEST(steps_in() == one_curve, boost::test_tools::per_element());
  BOOST_TEST(scratch_folder::read(job.folder() / "out/report.html").find("after 4 of 10 steps") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(metrics_of_the_host_are_in_every_curve_and_are_cut_with_it) {
  const small_job job;
  const auto out = (job.folder() / "out").string();
  const settings set{"output=" + out, "telemetry.json_lines=true", "csv_monitor.enabled=true",
                     "tensorboard.enabled=true"};
  const auto csv = job.folder() / "out/DeepSpeedJobName/Own_Samples_reward.mean.csv";
  {
    actors::session* at = nullptr;
    actors::session_hooks hooks;
    hooks.on_step = [&](const actors::step_report& r) {  // may record the values of the step that has just ended
      BOOST_TEST(at->record("reward.mean", double(r.step) / 4).has_value());
    };
    auto s = actors::session::open(job.config(set), std::move(hooks));
    BOOST_TEST_REQUIRE(s.has_value());
    at = s->get();
    BOOST_TEST(at->record("reward.mean", 8).has_value());
    BOOST_TEST(at->record("reward.mean", -1).has_value());  // the last value of a step counts
    for (int i = 0; i < 2; ++i) step_of(*at);
    BOOST_TEST_REQUIRE(at->save({.root = job.folder() / "out/checkpoints"}).has_value());
    BOOST_TEST(at->record("kl", std::numeric_limits<double>::quiet_NaN()).has_value());
    step_of(*at);
    BOOST_TEST(at->finish().curves_complete);
    const auto late = at->record("kl", 1);
    BOOST_TEST((!late && late.error().text.find("because finish was called") != std::string::npos));
  }
  BOOST_TEST(scratch_folder::read(csv) == "step,reward.mean\n0,-1\n2,0.25\n4,0.5\n6,0.75\n");
  BOOST_TEST(scratch_folder::read(job.folder() / "out/DeepSpeedJobName/Own_Samples_kl.csv") == "step,kl\n4,nan\n");
  const auto lines = scratch_folder::read(job.folder() / "out/steps.jsonl");
  BOOST_TEST(lines.find("{\"step\":2,\"global_samples\":4,\"metrics\":{\"kl\":null,\"reward.mean\":0.5},") !=
             std::string::npos);
  BOOST_TEST(scratch_folder::read(job.folder() / "out/report.html").find("reward.mean") != std::string::npos);
  size_t events = 0;
  for (const auto& e : fs::directory_iterator(csv.parent_path()))
    if (e.path().filename().string().starts_with("events.out"))
      events += scratch_folder::read(e.path()).find("Own/Samples/reward.mean") != std::string::npos ? 1 : 0;
  BOOST_TEST(events == 1U);

  // A run that resumes cuts its own curves of metrics, too, before it has recorded a value.
  actors::session_options options{.config = job.config(set)};
  options.resume = job.folder() / "out/checkpoints";
  auto again = actors::session::open(std::move(options));
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST_REQUIRE((*again)->open_records().has_value());
  BOOST_TEST(scratch_folder::read(csv) == "step,reward.mean\n0,-1\n2,0.25\n4,0.5\n");
}

BOOST_AUTO_TEST_CASE(a_session_that_serves_no_page_says_so) {
  const small_job job;
  const auto warnings_of = [&](const settings& set, bool serves_page) {
    std::vector<std::string> out;
    actors::session_options options{.config = job.config(set)};
    options.hooks.on_warning = [&](const std::string& line) {
      if (line.starts_with("cluster.page: has no effect")) out.push_back(line);
    };
    options.serves_page = serves_page;
    auto s = actors::session::open(std::move(options));
    BOOST_TEST_REQUIRE(s.has_value());
    step_of(**s);
    return out.size();
  };
  BOOST_TEST(warnings_of({"cluster.page=0"}, false) == 1U);
  BOOST_TEST(warnings_of({"cluster.page=0"}, true) == 0U);
  BOOST_TEST(warnings_of({}, false) == 0U);
}

BOOST_AUTO_TEST_CASE(names_of_metrics_are_checked) {
  const small_job job;
  auto s = job.open({});
  for (const std::string name : {"", "a/b", "a b", ".a", "a,b", "\"", "\xC3\xA4",
                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const auto refused = s->record(name, 1);
    BOOST_TEST_REQUIRE(!refused.has_value(), name);
    BOOST_TEST(refused.error().text.starts_with("record: wanted a name of 1 to 64 letters, digits"), name);
  }
  for (size_t i = 0; i < telemetry::metrics_max; ++i)
    BOOST_TEST_REQUIRE(s->record(fmt::format("m{}", i), 1).has_value());
  BOOST_TEST(s->record("m0", 2).has_value());
  const auto more = s->record("one", 1);
  BOOST_TEST_REQUIRE(!more.has_value());
  BOOST_TEST(more.error().text == "record: wanted at most 128 names in a run, got 'one' besides");
}

BOOST_AUTO_TEST_CASE(log_lines_come_with_the_next_call) {
  const small_job job;
  std::vector<std::string> lines;
  actors::session_hooks hooks;
  hooks.on_log = [&](const std::string& line) { lines.push_back(line); };
  auto s = actors::session::open(job.config({"wall_clock_breakdown=true", "steps_per_print=2"}), std::move(hooks));
  BOOST_TEST_REQUIRE(s.has_value());
  for (int i = 0; i < 4; ++i) step_of(**s);
  (*s)->finish();
  BOOST_TEST(lines.size() == 2U);
  for (const auto& line : lines) BOOST_TEST(line.starts_with("time (ms) | fwd: "), line);
}

BOOST_AUTO_TEST_SUITE_END()
