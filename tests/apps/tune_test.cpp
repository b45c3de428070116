// Tests `troupe tune`: the settings that it compares, its trials, and the command with real trainings.
#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/plan/plan_costs.hpp"
#include "apps/tune/child_process.hpp"
#include "apps/tune/priced_settings.hpp"
#include "apps/tune/trial.hpp"
#include "apps/tune/trial_events.hpp"
#include "apps/tune/tune_constants.hpp"
#include "apps/tune/tune_report.hpp"
#include "apps/tune/tune_space.hpp"
#include "job/kept_costs.hpp"
#include "plan/choose/machine_costs.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(tune)

using namespace troupe::tests;
namespace apps = troupe::apps;
namespace job = troupe::job;
namespace plan = troupe::plan;

namespace {

namespace fs = std::filesystem;

/// Overrides that leave `troupe tune` nothing to vary in the smallest job.
const std::vector<std::string> pinned_job = {"parallel.data=2",
                                             "parallel.tensor=1",
                                             "parallel.pipeline=1",
                                             "parallel.sequence=1",
                                             "parallel.context=1",
                                             "train_micro_batch_size_per_gpu=4",
                                             "gradient_accumulation_steps=1",
                                             "zero_optimization.stage=3",
                                             "activation_checkpointing.enabled=false",
                                             "zero_optimization.reduce_bucket_size=500000000"};

/// A folder whose cache and temporary folder are its own.
struct tuned_folder : command_folder {
  explicit tuned_folder(const std::string& yaml = smallest) : command_folder(yaml) {
    fs::create_directories(folder / "tmp");
  }
  [[nodiscard]] std::function<void()> surroundings() const {
    return [this] {
      ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
      ::setenv("TMPDIR", (folder / "tmp").c_str(), 1);
    };
  }
  [[nodiscard]] finished tuned(std::vector<std::string> more) const {
    more.insert(more.begin(), {"tune", "job.yaml"});
    return troupe(more, surroundings());
  }
  /// Keeps made-up constants of this machine, as a calibration would.
  void keep_constants() const {
    plan::machine_costs costs;
    for (const auto& c : plan::machine_constants()) costs.*c.field = c.unit == "s" ? 1e-5 : c.divides ? 1e10 : 16;
    job::kept_costs kept;
    kept.machine = apps::own_machine();
    kept.measured_at_s = static_cast<double>(std::time(nullptr)) - 7200;
    kept.types = {{troupe::core::dtype::f32, costs, costs, costs}};
    const auto name = job::kept_costs_file(kept.machine).filename();
    fs::create_directories(folder / "cache/troupe");
    folder.write("cache/troupe/" + name.string(), job::text_of(kept));
  }
  [[nodiscard]] bool has_left_nothing() const { return fs::is_empty(folder / "tmp") && !fs::exists(folder / "out"); }
};

std::vector<std::string> with_pins(std::vector<std::string> words) {
  for (const auto& one : pinned_job) words.insert(words.end(), {"--set", one});
  return words;
}

/// A space of two data ranks of eight samples each step, all degrees open.
apps::tune_space space_of_two_ranks() {
  apps::tune_space out;
  out.own.data = 2;
  out.own.micro_batch = 4;
  out.own.stage = 3;
  out.own.bucket_elements = 500'000'000;
  out.global_batch = 8;
  out.elements = 100'000;
  for (auto degree : {&apps::tune_setting::data, &apps::tune_setting::tensor, &apps::tune_setting::pipeline,
                      &apps::tune_setting::sequence, &apps::tune_setting::context}) {
    apps::tune_setting way;
    way.*degree = 2;
    out.ways.push_back(way);
  }
  return out;
}

/// Returns a line of `troupe train --json` for a step.
std::string step_line(double step_s, const std::string& more = "") {
  return fmt::format("{{\"event\":\"step\",\"step\":1,\"step_s\":{},\"skipped\":false{}}}", step_s, more);
}

/// Runs a script of the shell as a trial.
apps::trial_result tried(
    const std::string& script, const apps::trial_limits& limits = {},
    const std::function<bool()>& stops = [] { return false; }) {
  return apps::run_trial({"/bin/sh", "-c", script}, limits, stops);
}

apps::priced_setting priced_at(double predicted_s, uint64_t memory_bytes, const std::string& family) {
  apps::priced_setting out;
  out.set = {fmt::format("seed={}", predicted_s)};
  out.family = family;
  out.predicted_s = predicted_s;
  out.memory_bytes = memory_bytes;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_settings_have_the_ranks_and_the_samples_of_the_file) {
  const auto space = space_of_two_ranks();
  const auto all = *check_ok(apps::settings_of(space));
  BOOST_TEST((all.front() == space.own));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& s = all[i];
    BOOST_TEST(s.data * s.tensor * s.pipeline * s.sequence * s.context == 2U);
    BOOST_TEST(s.data * s.micro_batch * s.micro_batches == 8U);
    BOOST_TEST((s.stage == 0 || s.sharing_ranks() > 1));
    BOOST_TEST((s.pipeline > 1 || s.schedule == "1f1b"));
    BOOST_TEST(std::ranges::count(all, s) == 1);
  }
  // data ranks: 3 micro-batches, 4 stages, recomputation, 3 sizes of buckets; sequence and context ranks: 4
  // micro-batches; tensor: 4 with recomputation; pipeline: 7 schedules of these
  BOOST_TEST(all.size() == 3U * 4 * 2 * 3 + 2U * 4 * 4 * 2 * 3 + 4U * 2 + 7U * 4 * 2);
}

BOOST_AUTO_TEST_CASE(keys_that_set_gives_keep_their_value) {
  const auto pinned = apps::pinned_by({"parallel.tensor=1", "zero_optimization={stage: 3}", "parallel.data=auto",
                                       "seed=3", "gradient_accumulation_steps=1"});
  BOOST_TEST((pinned == std::set<std::string>{"parallel.tensor", "zero_optimization.stage",
                                              "zero_optimization.reduce_bucket_size", "gradient_accumulation_steps"}));
  auto space = space_of_two_ranks();
  space.pinned = {"parallel.data", "zero_optimization.stage", "train_micro_batch_size_per_gpu"};
  const auto all = *check_ok(apps::settings_of(space));
  BOOST_TEST(all.size() == 2U * 3);  // recomputation and buckets
  for (const auto& s : all) BOOST_TEST((s.data == 2 && s.stage == 3 && s.micro_batch == 4));
  space.pinned = {"parallel.pipeline", "parallel.data", "zero_optimization.stage"};
  for (const auto& key : apps::tuned_keys()) space.pinned.emplace(key);
  BOOST_TEST(check_ok(apps::settings_of(space))->size() == 1U);
}

BOOST_AUTO_TEST_CASE(too_many_settings_are_refused_with_their_number) {
  auto space = space_of_two_ranks();
  space.global_batch = uint64_t{720'720} * 2;
  check_failed(apps::settings_of(space), troupe::core::error_kind::bad_input, "at most 4096 settings to compare, got ");
}

BOOST_AUTO_TEST_CASE(overrides_say_what_differs_and_become_yaml) {
  using list = std::vector<std::string>;
  const auto space = space_of_two_ranks();
  auto to = space.own;
  BOOST_TEST(apps::overrides_between(space.own, to, 8).empty());
  to.stage = 1;
  to.recompute = true;
  BOOST_TEST((apps::overrides_between(space.own, to, 8) ==
              list{"zero_optimization.stage=1", "activation_checkpointing.enabled=true"}));
  to = space.own;
  to.data = 1;
  to.pipeline = 2;
  to.schedule = "zb_h1";
  const auto set = apps::overrides_between(space.own, to, 8);
  BOOST_TEST(
      (set == list{"parallel.data=1", "parallel.pipeline=2", "train_batch_size=8", "train_micro_batch_size_per_gpu=4",
                   "gradient_accumulation_steps=1", "pipeline.schedule=zb_h1"}));
  BOOST_TEST(apps::yaml_of_overrides({"parallel.data=1", "seed=4", "parallel.pipeline=2", "parallel.data=3",
                                      "optimizer.params.betas=[0.9, 0.95]"}) ==
             "parallel:\n  data: 3\n  pipeline: 2\nseed: 4\noptimizer:\n  params:\n    betas: [0.9, 0.95]\n");
}

BOOST_AUTO_TEST_CASE(the_measured_step_is_the_median_without_the_first_two_skipped_and_repeated_ones) {
  apps::trial_events events;
  BOOST_TEST(!events.take("data: 3 documents"));
  BOOST_TEST(!events.take("{\"event\":\"end\",\"steps\":6}"));
  BOOST_TEST(!events.take("{\"event\":\"step\",\"step\":1,\"step_s\":"));
  for (const double first : {9.0, 8.0}) BOOST_TEST(events.take(step_line(first)));
  BOOST_TEST(events.step_s() == 0);
  BOOST_TEST(events.take("{\"event\":\"step\",\"step\":3,\"step_s\":0.1,\"skipped\":true}"));
  BOOST_TEST(events.take(step_line(0.2, ",\"again\":true")));
  for (const double later : {3.0, 1.0, 2.0}) events.take(step_line(later));
  BOOST_TEST(events.step_s() == 2.0);
  events.take(step_line(4.0));
  BOOST_TEST(events.step_s() == 2.5);
  BOOST_TEST(events.steps() == 8U);
  BOOST_TEST(apps::patience_of(6, 0.1) == 60.0);
  BOOST_TEST(apps::patience_of(6, 10) == 600.0);
}

BOOST_AUTO_TEST_CASE(memory_is_private_memory_of_all_processes_and_shared_memory_once) {
  BOOST_TEST(apps::memory_in({"Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t 900 kB\nRssShmem:\t      20 kB\n",
                              "Name:\ty\nRssAnon:\t      10 kB\nRssShmem:\t      30 kB\n", ""}) == 140U * 1024);
}

BOOST_AUTO_TEST_CASE(reasons_that_differ_in_numbers_are_one) {
  apps::refusal_count count;
  count.add("a: wanted 2");
  for (const char* why : {"b: wanted 12, got 3", "b: wanted 7, got 45"}) count.add(why);
  const auto all = count.sorted();
  BOOST_TEST_REQUIRE(all.size() == 2U);
  BOOST_TEST(all[0].why == "b: wanted 12, got 3");
  BOOST_TEST(all[0].count == 2U);
}

BOOST_AUTO_TEST_CASE(one_setting_of_a_family_is_tried_and_none_like_another) {
  apps::priced_settings from;
  from.own = priced_at(2, 20, "");
  from.fitting = {priced_at(1, 10, "a"), priced_at(1.5, 10, "a"), priced_at(1.6, 11, "b"), priced_at(1.6, 11, "c"),
                  priced_at(2, 20, "d"), priced_at(3, 20, "e"),   priced_at(4, 20, "f")};
  const auto some = apps::settings_to_try(from, 3, false);
  BOOST_TEST_REQUIRE(some.size() == 3U);
  BOOST_TEST((some[0].family == "a" && some[1].family == "b" && some[2].family == "e"));
  BOOST_TEST(apps::settings_to_try(from, 3, true).size() == from.fitting.size());
}

BOOST_AUTO_TEST_CASE(constants_are_read_from_what_a_calibration_prints) {
  nlohmann::ordered_json type = nlohmann::ordered_json::object();
  for (const auto& c : plan::machine_constants())
    type[std::string(c.name)] = {{"value", 2.5}, {"lower", 2}, {"upper", 3}, {"unit", c.unit}};
  nlohmann::ordered_json out{{"format", "troupe calibrate"}, {"cores", 2}, {"types", {{"bf16", type}}}};
  out["why_not_kept"] = "others are busy";
  const auto read = *check_ok(apps::read_calibration(out.dump(2), 5));
  BOOST_TEST(read.why_not_kept == "others are busy");
  BOOST_TEST_REQUIRE(read.measured.find(troupe::core::dtype::bf16) != nullptr);
  BOOST_TEST(read.measured.find(troupe::core::dtype::f32) == nullptr);
  const auto& of = *read.measured.find(troupe::core::dtype::bf16);
  BOOST_TEST((of.median.launch_s == 2.5 && of.lower.product_flops_per_s == 2 && of.upper.wakeup_s == 3));
  out["types"]["bf16"].erase("launch_s");
  check_failed(apps::read_calibration(out.dump(), 5), "another version");
  check_failed(apps::read_calibration("measuring", 5), "another version");
}

BOOST_AUTO_TEST_CASE(a_trial_that_fails_hangs_outgrows_memory_or_is_stopped_says_so) {
  std::string good;
  for (int i = 0; i < 5; ++i) good += "echo '" + step_line(0.25) + "'; ";
  BOOST_TEST(tried(good).step_s == 0.25);
  BOOST_TEST(tried(good).failure.empty());
  BOOST_TEST(has(tried("echo '" + step_line(1) + "'").failure, "made 1 steps, of which none after the first 2 counts"));
  BOOST_TEST(tried("echo first >&2; echo 'troupe: error: no room' >&2; exit 2").failure == "exit code 2: no room");
  BOOST_TEST(tried("kill -9 $$").failure == "signal 9 ended it");
  BOOST_TEST(apps::run_trial({"/nonexistent"}, {}, [] { return false; }).failure == "exit code 127");

  const auto hung = tried("trap '' TERM; " + good + "sleep 1000", {.memory_bytes = 0, .patience_s = 2});
  BOOST_TEST(hung.failure == "hung: no step for 2 s after 5 steps");
  BOOST_TEST(hung.seconds < 30);
  // The memory is that of a process of the program's.
  const auto grown = tried("head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null; sleep 1000",
                           {.memory_bytes = 50'000'000, .patience_s = 60});
  BOOST_TEST(has(grown.failure, "outgrew the memory: "), grown.failure);
  BOOST_TEST(grown.peak_bytes > 50'000'000U);
  int looks = 0;
  const auto stopped = tried("sleep 1000", {}, [&] { return ++looks > 3; });
  BOOST_TEST((stopped.stopped && stopped.step_s == 0 && stopped.seconds < 30));
}

BOOST_AUTO_TEST_CASE(no_process_of_an_ended_trial_lives_on) {
  const scratch_folder f;
  const auto file = (f / "pid").string();
  tried("sleep 1000 & echo $! > '" + file + "'; wait", {.memory_bytes = 0, .patience_s = 2});
  const auto pid = static_cast<pid_t>(std::stoi(scratch_folder::read(file)));
  bool lives = true;
  for (int i = 0; i < 500 && lives; ++i) {  // its new parent reaps it
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto place = fs::path("/proc") / fmt::to_string(pid);
    const auto stat = fs::exists(place) ? scratch_folder::read(place / "stat") : std::string();
    lives = !stat.empty() && !has(stat, ") Z ");
  }
  BOOST_TEST(!lives);
}

BOOST_AUTO_TEST_CASE(a_job_is_tuned_from_a_calibration_to_its_yaml) {
  const tuned_folder f;  // without kept constants
  const auto did = check_exit(0, f.tuned({"--trials", "2", "--set", "parallel.sequence=1", "--set",
                                          "parallel.context=1", "--out", "best.yaml", "--json"}));
  const auto out = nlohmann::json::parse(did.out);
  BOOST_TEST(out.at("format") == "troupe tune");
  BOOST_TEST(out.at("global_batch") == 8);
  BOOST_TEST(has(out.at("notes").dump(), "this machine was measured first"), out.at("notes").dump());
  BOOST_TEST(has(out.at("notes").dump(), "not varied, because --set gives them: parallel.context, parallel.sequence"));
  BOOST_TEST(out.at("settings") > 100);
  const auto& trials = out.at("trials");
  BOOST_TEST_REQUIRE(trials.size() == 3U);
  BOOST_TEST(trials[0].at("own").get<bool>());
  BOOST_TEST(trials[0].at("set").empty());
  const auto best = out.at("best").get<size_t>();
  for (const auto& one : trials) {
    BOOST_TEST_REQUIRE(one.at("failure").is_null(), one.dump());
    BOOST_TEST(one.at("predicted_s").get<double>() > 0);
    BOOST_TEST(one.at("measured_s").get<double>() >= trials[best].at("measured_s").get<double>());
    BOOST_TEST(one.at("peak_bytes").get<uint64_t>() > one.at("predicted_memory_bytes").get<uint64_t>());
  }
  BOOST_TEST(f.has_left_nothing());
  BOOST_TEST(scratch_folder::read(f.folder / "best.yaml") == out.at("yaml").get<std::string>());
}

BOOST_AUTO_TEST_CASE(the_yaml_of_a_setting_makes_a_job_that_is_planned_as_with_its_overrides) {
  const tuned_folder f;
  f.keep_constants();
  const auto did = check_exit(0, f.tuned({"--trials", "3", "--set", "parallel.data=1", "--set", "train_batch_size=8",
                                          "--set", "train_micro_batch_size_per_gpu=2", "--set",
                                          "gradient_accumulation_steps=4", "--set", "parallel.pipeline=2", "--json"}));
  const auto out = nlohmann::json::parse(did.out);
  BOOST_TEST(has(out.at("rates").get<std::string>(), "measured 2 hours ago by troupe calibrate"));
  BOOST_TEST_REQUIRE(out.at("trials").size() == 4U);
  for (const auto& one : out.at("trials")) BOOST_TEST(one.at("failure").is_null(), one.dump());
  std::vector<std::string> set{"pipeline.schedule=zb_h1", "activation_checkpointing.enabled=true"};
  const auto predicted = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> words{"plan", file, "--json"};
    for (const auto& one : more) words.insert(words.end(), {"--set", one});
    return nlohmann::json::parse(check_exit(0, f.troupe(words, f.surroundings())).out).at("predicted").at("step_s");
  };
  const std::string pipeline =
      replaced(replaced(smallest, "{data: 2}", "{pipeline: 2}"), "gpu: 4", "gpu: 2\ngradient_accumulation_steps: 4");
  f.folder.write("job.yaml", pipeline);
  f.folder.write("pasted.yaml", fmt::format("{}{}", pipeline, apps::yaml_of_overrides(set)));
  BOOST_TEST(predicted("pasted.yaml", {}) == predicted("job.yaml", set));
}

BOOST_AUTO_TEST_CASE(a_failing_trial_is_a_row_and_the_others_go_on) {
  const tuned_folder f;
  f.keep_constants();
  f.folder.write("empty.txt", "");
  const auto did = check_exit(0, f.tuned(with_pins({"--all", "--over", "data.text=empty.txt,corpus.txt"})));
  BOOST_TEST(has(did.out, "data.text=empty.txt: exit code 2: "), did.out);
  BOOST_TEST(has(did.out, "holds no text"), did.out);
  BOOST_TEST(has(did.out, "# to paste into the job"), did.out);
  BOOST_TEST(has(did.out, "the fastest step takes "), did.out);
  BOOST_TEST(f.has_left_nothing());
  const auto none = f.tuned(with_pins({"--trials", "1", "--set", "data.text=empty.txt"}));
  BOOST_TEST(has(check_exit(1, none).out, "no trial gave a step time"), none.out);
}

BOOST_AUTO_TEST_CASE(memory_that_is_planned_or_measured_leaves_settings_out) {
  const tuned_folder f;
  f.keep_constants();
  const auto none = check_exit(2, f.tuned(with_pins({"--memory", "1KiB"})));
  BOOST_TEST(has(none.err, "--memory: none of 1 settings fits 1"), none.err);
  BOOST_TEST(has(none.err, "; the least is "), none.err);
  BOOST_TEST(has(none.err, "(the file's own setting)"), none.err);
  // The plans fit into this limit, the process with its libraries does not.
  const auto grown = check_exit(1, f.tuned(with_pins({"--memory", "16MiB", "--trials", "1", "--json"})));
  const auto trials = nlohmann::json::parse(grown.out).at("trials");
  BOOST_TEST_REQUIRE(trials.size() == 1U);
  BOOST_TEST(has(trials[0].at("failure").get<std::string>(), "outgrew the memory: "), trials.dump());
  BOOST_TEST(f.has_left_nothing());
}

BOOST_AUTO_TEST_CASE(degrees_that_are_auto_begin_with_the_fastest_predicted_ones) {
  const tuned_folder f(replaced(smallest, "parallel: {data: 2}",
                                "parallel: {ranks: 2, data: auto, pipeline: auto}\ntrain_batch_size: 8"));
  f.keep_constants();
  const auto did =
      check_exit(0, f.tuned({"--trials", "1", "--set", "parallel.sequence=1", "--set", "parallel.context=1", "--set",
                             "parallel.tensor=1", "--set", "activation_checkpointing.enabled=false", "--json"}));
  const auto out = nlohmann::json::parse(did.out);
  BOOST_TEST(has(out.at("notes").dump(), "degrees that are auto in the file"), out.at("notes").dump());
  BOOST_TEST(out.at("yaml").get<std::string>().starts_with("parallel:\n  data: "), out.at("yaml").dump());
  for (const auto& one : out.at("trials")) BOOST_TEST(one.at("failure").is_null(), one.dump());
}

BOOST_AUTO_TEST_CASE(ctrl_c_ends_the_trial_and_prints_what_is_known) {
  const tuned_folder f;
  f.keep_constants();
  std::vector<std::string> words{troupe::places::troupe_binary, "tune", "job.yaml", "--steps", "100000", "--json"};
  process tunes(with_pins(words), f.folder.path(), f.surroundings());
  const auto has_begun = [&] {
    for (const auto& entry : fs::directory_iterator(f.folder / "tmp"))
      if (fs::exists(entry.path() / "0")) return true;
    return false;
  };
  for (int i = 0; i < 3000 && !has_begun(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST_REQUIRE(has_begun());
  tunes.send(SIGINT);
  const auto did = check_exit(130, tunes.end());
  const auto out = nlohmann::json::parse(did.out);
  BOOST_TEST(out.at("stopped").get<bool>());
  BOOST_TEST(out.at("trials").empty());
  BOOST_TEST(f.has_left_nothing());
}

BOOST_AUTO_TEST_CASE(the_users_files_are_not_touched) {
  const tuned_folder f(smallest +
                       "checkpoint: {every_steps: 2}\nmlflow: {enabled: true}\nwandb: {enabled: true}\n"
                       "csv_monitor: {enabled: true, output_path: curves}\nsample: {tokens: 8}\n");
  f.keep_constants();
  check_exit(0, f.tuned(with_pins({"--trials", "1"})));
  BOOST_TEST(f.has_left_nothing());
  BOOST_TEST(!fs::exists(f.folder / "curves"));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(f.folder.path())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  BOOST_TEST((names == std::vector<std::string>{"cache", "corpus.txt", "job.yaml", "tmp"}));
}

BOOST_AUTO_TEST_CASE(bad_input_is_refused_by_name_before_anything_runs) {
  const tuned_folder f;
  f.keep_constants();
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto did = check_exit(2, f.tuned(words));
    BOOST_TEST(has(did.err, why), did.err);
    BOOST_TEST(f.has_left_nothing());
  };
  refused({"--over", "zero_optimization.stag=1,2"},
          "--over zero_optimization.stag: unknown key; the nearest known one");
  refused({"--over", "seed"}, "--over: wanted KEY=VALUES");
  refused({"--over", "parallel.tensor=1,2"}, "--over parallel.tensor: troupe tune varies degrees");
  refused({"--over", "train_batch_size=8,16"}, "--over train_batch_size: ");
  refused({"--over", "output=a,b"}, "--over output: a trial has its own");
  refused({"--over", "seed=1:5000"}, "wanted at most 4096 settings to compare");
  refused({"--trials", "0"}, "--trials");
  refused({"--steps", "2"}, "--steps");
  refused({"--all", "--trials", "2"}, "--all");
  refused({"--out", "best.txt"}, "--out: wanted a name that ends in .yaml");
  refused({"--out", "none/best.yaml"}, "--out: wanted a file in a folder that exists");
  refused({"--set", "data.rampup_batch_size=[8,8,16]", "--set", "gradient_accumulation_steps=2"},
          "data.rampup_batch_size: ");
  refused({"--set", "zero_optimization.stage=9"}, "zero_optimization.stage");
}

BOOST_AUTO_TEST_CASE(the_example_of_the_help_works) {
  const tuned_folder f;
  f.keep_constants();
  fs::create_directory(f.folder / "examples");
  for (const char* file : {"smallest.yaml", "corpus.txt"})
    fs::copy(fs::path(troupe::places::source_dir) / "examples" / file, f.folder / "examples" / file);
  const auto did = check_exit(
      0,
      f.troupe({"tune", "examples/smallest.yaml", "--set", "parallel.context=1", "--trials", "2"}, f.surroundings()));
  BOOST_TEST(has(did.out, "the file's own"), did.out);
  BOOST_TEST(has(f.troupe({"tune", "--help"}).out,
                 "Example: troupe tune examples/smallest.yaml --set parallel.context=1 --trials 2"));
}

BOOST_AUTO_TEST_SUITE_END()
