// Tests that the telemetry actor writes the trace of the chosen steps, passes values to the recorder, writes the files
// at the end of a run, and warns once about a file that it cannot write; its queue is bounded.
#include "actors/telemetry.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "config/keys/key_table.hpp"
#include "plan/kinds.hpp"
#include "tests/actors/one_thread.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::actors;
using tests::scratch_folder;

namespace {

std::shared_ptr<const std::vector<::troupe::telemetry::rank_spans>> made_up_spans(const plan::shared_plans& plans) {
  run_contexts ranks;
  for (const auto& p : plans) {
    ranks.push_back(context_of(p));
    for (const auto& x : p->instructions) {
      ranks.back()->spans[x.id].start_ns = 1000 * (x.id + 1);
      ranks.back()->spans[x.id].end_ns = 1000 * (x.id + 2);
    }
  }
  return std::make_shared<const std::vector<::troupe::telemetry::rank_spans>>(spans_of(ranks));
}

struct fixture {
  // Posts the values of a step; `step` counts from 0.
  void post_step(const telemetry_actor& to, uint64_t step, record_queue::place place = nullptr) {
    auto v = std::make_shared<telemetry::step_values>();
    v->step = step + 1;
    v->global_samples = 8 * (step + 1);
    v->loss = 1.0 / double(step + 1);
    post(to, record_step{std::move(v), spans, std::move(place)});
  }
  void record(const telemetry_actor& to, uint64_t step) {
    post_step(to, step);
    world.run();
  }
  telemetry_setup with_recorder(telemetry::recorder_options o) {
    telemetry_setup setup;
    o.log = setup.log = [this](const std::string& line) { lines.push_back(line); };
    o.warn = [this](const std::string& line) { warnings.push_back(line); };
    setup.complain = [this](const core::error& e) { warnings.push_back(e.text); };
    setup.recorder = std::make_shared<telemetry::recorder>(std::move(o));
    BOOST_TEST_REQUIRE(setup.recorder->open(0).has_value());
    return setup;
  }
  std::shared_ptr<const ::troupe::telemetry::run_records> close(const telemetry_actor& of, uint64_t dropped = 0) {
    std::shared_ptr<const ::troupe::telemetry::run_records> out;
    caf::scoped_actor self{world.system()};
    auto end = std::make_shared<telemetry::run_end>();
    end->seconds = 1;
    auto asked = self->request(of, caf::infinite, close_records{end, dropped});
    world.run();
    asked.receive([&](const records_closed& m) { out = m.records; }, [](caf::error&) { BOOST_FAIL("no answer"); });
    return out;
  }
  scratch_folder scratch;
  plan::shared_plans plans = small_plans(2);
  std::shared_ptr<const std::vector<::troupe::telemetry::rank_spans>> spans = made_up_spans(plans);
  std::vector<std::string> lines, warnings;
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

BOOST_AUTO_TEST_CASE(curves_grow_with_the_steps_and_the_end_writes_report_and_table) {
  ::troupe::telemetry::recorder_options o;
  o.curves = {scratch / "csv", scratch / "events", scratch / "steps.jsonl"};
  o.report = o.communication = true;
  o.facts.name = "<b>job</b>";
  auto setup = with_recorder(std::move(o));
  setup.report_file = scratch / "report.html";
  setup.communication_file = scratch / "communication.json";
  const auto actor = world.spawn(telemetry_impl, setup);
  for (uint64_t step = 0; step < 4; ++step) record(actor, step);
  auto loss = std::make_shared<::troupe::telemetry::validation_values>();
  *loss = {4, 32, 0.75, 0};
  post(actor, record_validation{loss, nullptr});
  auto other = std::make_shared<::troupe::telemetry::validation_values>();
  *other = {4, 32, 0.625, 0, "books", false};
  post(actor, record_validation{other, nullptr});
  world.run();
  BOOST_TEST(scratch_folder::read(scratch / "csv/Validation_books_loss.csv") == "step,loss\n32,0.625\n");
  BOOST_TEST(scratch_folder::read(scratch / "csv/Train_Samples_train_loss.csv") ==
             "step,train_loss\n8,1\n16,0.5\n24,0.3333333333333333\n32,0.25\n");
  BOOST_TEST(scratch_folder::read(scratch / "csv/Validation_Samples_loss.csv") == "step,loss\n32,0.75\n");
  const auto closed = close(actor, 3);
  BOOST_TEST(closed->curves_complete);
  BOOST_TEST(closed->report_written);
  BOOST_TEST(closed->communication_table.starts_with("Comm. Op "));
  const std::string page = scratch_folder::read(scratch / "report.html");
  BOOST_TEST(says(page, "<h1>&lt;b&gt;job&lt;/b&gt;</h1>"));
  BOOST_TEST(says(page, "3 records of telemetry were dropped"));
  BOOST_TEST(says(page, "Validation loss, books"));
  BOOST_TEST(says(page, "communication.json"));
  const auto rows = nlohmann::json::parse(scratch_folder::read(scratch / "communication.json")).at("operations");
  uint64_t count = 0;
  for (const auto& r : rows) count += r.at("count").get<uint64_t>();
  BOOST_TEST(count == 4 * plans[0]->num_collectives[0]);
  std::istringstream all(scratch_folder::read(scratch / "steps.jsonl"));
  size_t num_lines = 0;
  for (std::string line; std::getline(all, line); ++num_lines)
    BOOST_TEST(nlohmann::json::parse(line).contains(num_lines < 4 ? "loss" : "validation_loss"));
  BOOST_TEST(num_lines == 6U);
  BOOST_TEST(warnings.empty());
}

BOOST_AUTO_TEST_CASE(lines_are_logged_as_the_keys_ask_for_them) {
  ::troupe::telemetry::recorder_options o;
  o.communication = o.communication_verbose = true;
  o.print_every = 2;
  o.flops.emplace();
  o.flops->step = 1;
  const auto actor = world.spawn(telemetry_impl, with_recorder(std::move(o)));
  const auto starting_with = [&](const std::string& head) {
    return std::count_if(lines.begin(), lines.end(), [&](const auto& l) { return l.starts_with(head); });
  };
  for (uint64_t step = 0; step < 5; ++step) {
    record(actor, step);
    BOOST_TEST(starting_with("flops profiler, step 1, rank 0") == (step >= 1 ? 1 : 0));
  }
  BOOST_TEST(starting_with("time (ms) | fwd: ") == 2);
  BOOST_TEST(starting_with("comm op: ") == 5 * static_cast<long>(plans[0]->num_collectives[0]));
}

BOOST_AUTO_TEST_CASE(the_names_that_select_collectives_are_those_of_the_plans_and_of_deepspeed) {
  const auto& names = config::key_named("comms_logger.prof_ops")->choices.names;
  const auto is_name = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  constexpr std::string_view ops[] = {"all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "send_receive",
                                      "all_to_all_single"};
  for (const std::string_view op : ops) BOOST_TEST(is_name(op), op);
  size_t kinds = 0;
  for (size_t k = 0; k < plan::num_kinds; ++k) {
    const auto kind = static_cast<plan::kind>(k);
    if (plan::lane_of(kind) != plan::lane::fabric) continue;
    // A transfer is in the log once, under the name of its send.
    BOOST_TEST(is_name(plan::name_of(kind)) == (kind != plan::kind::receive), plan::name_of(kind));
    kinds += kind != plan::kind::receive;
  }
  size_t of_ops = 0;
  for (const std::string_view name : names)
    of_ops += std::ranges::any_of(ops, [&](std::string_view op) {
      return op == name || (name.find('_') != name.npos && op.starts_with(std::string(name) + "_"));
    });
  BOOST_TEST(kinds + of_ops == names.size());
}

BOOST_AUTO_TEST_CASE(a_folder_that_vanishes_is_warned_of_once_and_the_run_continues) {
  ::troupe::telemetry::recorder_options o;
  o.curves.csv_folder = scratch / "csv";
  o.report = true;
  auto setup = with_recorder(std::move(o));
  setup.report_file = scratch / "gone/report.html";
  const auto actor = world.spawn(telemetry_impl, setup);
  std::filesystem::remove_all(scratch / "csv");
  for (uint64_t step = 0; step < 3; ++step) record(actor, step);
  BOOST_TEST(warnings.size() == 1U);
  const auto closed = close(actor);
  BOOST_TEST(!closed->curves_complete);
  BOOST_TEST(!closed->report_written);
}

BOOST_AUTO_TEST_CASE(a_runs_folder_that_is_removed_is_warned_of_once_and_the_end_names_what_is_not_written) {
  const auto home = scratch / "out";
  std::filesystem::create_directory(home);
  ::troupe::telemetry::recorder_options o;
  o.curves.json_lines_file = home / "steps.jsonl";
  o.report = o.communication = true;
  auto setup = with_recorder(std::move(o));
  setup.home = home;
  setup.report_file = home / "report.html";
  setup.communication_file = home / "communication.json";
  const auto actor = world.spawn(telemetry_impl, setup);
  record(actor, 0);
  BOOST_TEST(warnings.empty());
  std::filesystem::remove_all(home);
  for (uint64_t step = 1; step < 4; ++step) record(actor, step);
  const std::vector<std::string> wanted = {
      "telemetry: the run's folder " + home.string() +
          " was removed; the run continues, and what it records there is lost",
      "cannot write " + (home / "steps.jsonl").string() +
          ": the file was removed during the run; the run continues without these records"};
  BOOST_TEST(warnings == wanted, boost::test_tools::per_element());
  const auto closed = close(actor);
  BOOST_TEST(!closed->curves_complete);
  BOOST_TEST(!closed->report_written);
  BOOST_TEST_REQUIRE(warnings.size() == 3U);
  BOOST_TEST(warnings.back() == "telemetry: not written, as the run's folder " + home.string() +
                                    " was removed: communication.json, report.html");
}

BOOST_AUTO_TEST_CASE(records_that_come_while_the_writers_are_behind_are_dropped_and_counted) {
  ::troupe::telemetry::recorder_options o;
  o.curves.json_lines_file = scratch / "steps.jsonl";
  const auto actor = world.spawn(telemetry_impl, with_recorder(std::move(o)));
  record_queue queue;
  const auto offer = [&](uint64_t step) {
    if (auto place = queue.admit()) post_step(actor, step, std::move(place));
  };
  // The actor does not run during this loop, so the queue fills.
  for (uint64_t step = 0; step < record_queue_limit + 10; ++step) offer(step);
  BOOST_TEST(queue.num_dropped() == 10U);
  world.run();
  for (uint64_t step = 100; step < 120; ++step) offer(step);
  world.run();
  BOOST_TEST(queue.num_dropped() == 10U);
  const std::string written = scratch_folder::read(scratch / "steps.jsonl");
  BOOST_TEST(std::count(written.begin(), written.end(), '\n') == record_queue_limit + 20);
}

// After a loss that is recovered from a save in memory, no record is missing for a step that is not repeated.
BOOST_AUTO_TEST_CASE(a_record_is_waited_for_while_those_before_it_are_written_and_given_up_where_none_is) {
  using std::chrono::seconds;
  record_queue queue;
  std::vector<record_queue::place> waiting(8);
  for (auto& place : waiting) place = queue.admit();
  const std::weak_ptr<const void> last = waiting.back();
  seconds now{0};
  size_t written = 0;
  const auto clock = [&] { return std::chrono::nanoseconds(now); };
  const auto write_one_in_three = [&] {
    now += seconds(1);
    if (now.count() % 3 == 0) waiting[written++] = nullptr;
  };
  BOOST_TEST(wait_for_record(last, queue, seconds(4), clock, write_one_in_three));
  // The queue makes progress, so the wait may last longer than its limit of 4 s without progress.
  BOOST_TEST(now.count() == 24);

  const record_queue::place stuck = queue.admit();
  BOOST_TEST(!wait_for_record(stuck, queue, seconds(4), clock, [&] { now += seconds(1); }));
  BOOST_TEST(now.count() == 28);
}

BOOST_AUTO_TEST_SUITE_END()
