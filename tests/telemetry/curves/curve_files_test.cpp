// Tests files of training curves: DeepSpeed's names, all kinds of files at once, folders that cannot be written.
#include "telemetry/curves/curve_files.hpp"

#include <fmt/format.h>

#include "telemetry/curves/cut_curve.hpp"
#include "telemetry/curves/step_values.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(curve_files)

using namespace troupe;
using namespace troupe::telemetry;
using tests::scratch_folder;
using troupe::tests::check_failed;
using troupe::tests::check_ok;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(a_label_has_a_file_with_deepspeeds_name_and_header) {
  BOOST_TEST(csv_file_name("Train/Samples/train loss") == "Train_Samples_train_loss.csv");
  const scratch_folder f;
  auto files = check_ok(telemetry::curve_files::open({f / "csv/job", {}, {}}, 0));
  for (uint64_t step = 1; step <= 2; ++step) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    const std::vector<curve_value> values = {{"Train/Samples/lr", 0.1 / double(step)},
                                             {"Train/Samples/train_loss", NAN}};
    BOOST_TEST(files->write(0, 8 * step, values).has_value());
  }
  BOOST_TEST(scratch_folder::read(f / "csv/job/Train_Samples_lr.csv") == "step,lr\n8,0.1\n16,0.05\n");
  BOOST_TEST(scratch_folder::read(f / "csv/job/Train_Samples_train_loss.csv") == "step,train_loss\n8,nan\n16,nan\n");
  BOOST_TEST(files->complete());
}

BOOST_AUTO_TEST_CASE(an_event_file_and_json_lines_grow_with_every_write) {
  const scratch_folder f;
  auto files = check_ok(telemetry::curve_files::open({{}, f / "events", f / "out/steps.jsonl"}, 1700000000));
  const auto event_bytes = [&] {
    uint64_t n = 0, count = 0;
    for (const auto& e : fs::directory_iterator(f / "events")) {
      BOOST_TEST(e.path().filename().string().starts_with("events.out.tfevents.1700000000."));
      n += e.file_size();
      ++count;
    }
    BOOST_TEST(count == 1U);
    return n;
  };
  const uint64_t version = tf_record(version_event(1700000000)).size();
  BOOST_TEST(event_bytes() == version);
  const std::vector<curve_value> values = {{"a/b", 1.0}};
  BOOST_TEST(files->write(5, 300, values).has_value());
  BOOST_TEST(event_bytes() == version + tf_record(summary_event(5, 300, values)).size());
  BOOST_TEST(files->write_line("{\"a\":1}").has_value());
  BOOST_TEST(files->write_line("{\"a\":2}").has_value());
  BOOST_TEST(scratch_folder::read(f / "out/steps.jsonl") == "{\"a\":1}\n{\"a\":2}\n");
}

BOOST_AUTO_TEST_CASE(a_run_that_resumes_has_one_curve) {
  const scratch_folder f;
  const auto open = [&](std::optional<uint64_t> after) {
    auto files =
        check_ok(telemetry::curve_files::open({f / "csv", f / "events", f / "steps.jsonl", after}, 1700000000));
    return std::move(*files);
  };
  const auto row = [](uint64_t samples) { return fmt::format("{{\"step\":1,\"global_samples\":{}}}", samples); };
  const auto write = [&row](telemetry::curve_files& files, uint64_t samples, double value) {
    const std::vector<curve_value> values = {{"Train/Samples/lr", value}};
    BOOST_TEST(files.write(0, samples, values).has_value());
    BOOST_TEST(files.write_line(row(samples)).has_value());
  };
  {
    auto files = open(std::nullopt);
    for (uint64_t step = 1; step <= 4; ++step) write(files, 8 * step, 1);
    const std::vector<curve_value> rare = {{validation_label, 1.0}};
    BOOST_TEST(files.write(0, 16, rare).has_value());
    BOOST_TEST(files.write(0, 32, rare).has_value());
  }
  f.write("steps.jsonl", scratch_folder::read(f / "steps.jsonl") + "{\"global_sam");  // appends an incomplete row
  for (const auto& e : fs::directory_iterator(f / "events")) fs::remove(e.path());
  {
    auto files = open(16);
    for (uint64_t step = 3; step <= 4; ++step) write(files, 8 * step, 2);
  }
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == "step,lr\n8,1\n16,1\n24,2\n32,2\n");
  BOOST_TEST(scratch_folder::read(f / "csv/Validation_Samples_loss.csv") == "step,loss\n16,1\n");
  BOOST_TEST(scratch_folder::read(f / "steps.jsonl") ==
             row(8) + "\n" + row(16) + "\n" + row(24) + "\n" + row(32) + "\n");
  BOOST_TEST(!fs::exists(f / "steps.jsonl.previous"));
  const std::string head = tf_record(version_event(1700000000)) + tf_record(restart_event(1700000000, 17));
  for (const auto& e : fs::directory_iterator(f / "events"))
    BOOST_TEST(scratch_folder::read(e.path()).starts_with(head));
  // A run that resumes keeps all rows; a new run renames the existing files.
  open(32);
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv").ends_with("32,2\n"));
  open(std::nullopt);
  BOOST_TEST(fs::exists(f / "steps.jsonl.previous"));
}

BOOST_AUTO_TEST_CASE(curves_of_validation_sets_are_cut_when_their_run_resumes) {
  const scratch_folder f;
  const std::string label = label_of_set("books");
  const auto write = [&](std::optional<uint64_t> after) {
    telemetry::curve_options options{f / "csv", {}, {}, after};
    options.validation_sets = {"books"};
    auto files = check_ok(telemetry::curve_files::open(options, 1700000000));
    for (const uint64_t samples : {8U, 16U}) {
      const std::vector<curve_value> values = {{label, 0.5}};
      BOOST_TEST(files->write(0, samples + after.value_or(0), values).has_value());
    }
  };
  write(std::nullopt);
  write(8);
  BOOST_TEST(scratch_folder::read(f / "csv/Validation_books_loss.csv") == "step,loss\n8,0.5\n16,0.5\n24,0.5\n");
}

BOOST_AUTO_TEST_CASE(curves_that_are_open_go_back_with_their_run) {
  const scratch_folder f;
  auto files = check_ok(telemetry::curve_files::open({f / "csv", f / "events", f / "steps.jsonl", {}}, 1700000000));
  const auto row = [](uint64_t samples) { return fmt::format("{{\"step\":1,\"global_samples\":{}}}", samples); };
  const auto write = [&](uint64_t samples, double value) {
    const std::vector<curve_value> values = {{"Train/Samples/lr", value}};
    BOOST_TEST(files->write(0, samples, values).has_value());
    BOOST_TEST(files->write_line(row(samples)).has_value());
  };
  for (uint64_t step = 1; step <= 4; ++step) write(8 * step, 1);
  BOOST_TEST(files->go_back(1, 16).has_value());
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == "step,lr\n8,1\n16,1\n");
  BOOST_TEST(scratch_folder::read(f / "steps.jsonl") == row(8) + "\n" + row(16) + "\n");
  write(24, 2);
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == "step,lr\n8,1\n16,1\n24,2\n");
  BOOST_TEST(scratch_folder::read(f / "steps.jsonl").ends_with(row(16) + "\n" + row(24) + "\n"));
  for (const auto& e : fs::directory_iterator(f / "events"))
    BOOST_TEST(scratch_folder::read(e.path()).find(tf_record(restart_event(1, 17))) != std::string::npos);
  BOOST_TEST(files->go_back(2, 0).has_value());  // only weights were loaded, so the run begins at step 0
  BOOST_TEST(!fs::exists(f / "steps.jsonl.previous"));
  write(8, 3);
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == "step,lr\n8,3\n");
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv.previous") == "step,lr\n8,1\n16,1\n24,2\n");
  BOOST_TEST(scratch_folder::read(f / "steps.jsonl") == row(8) + "\n");
  BOOST_TEST(files->complete());
}

BOOST_AUTO_TEST_CASE(files_of_other_names_are_left_alone_by_a_run_that_resumes) {
  const scratch_folder f;
  const std::string mine = "step,lr\n8,1\n4000,2\n9000,3\n", numbers = "4000\n5000\n";
  f.write("csv/results.csv", mine);
  f.write("csv/numbers.csv", numbers);
  f.write("csv/Train_Samples_lr.csv", "step,lr\n8,1\n16,2\n24,3\n");
  f.write("other.jsonl", "{\"step\":9,\"global_samples\":99}\n");
  BOOST_TEST(telemetry::curve_files::open({f / "csv", f / "csv", f / "steps.jsonl", 16}, 0).has_value());
  BOOST_TEST(scratch_folder::read(f / "csv/results.csv") == mine);
  BOOST_TEST(scratch_folder::read(f / "csv/numbers.csv") == numbers);
  BOOST_TEST(scratch_folder::read(f / "other.jsonl") == "{\"step\":9,\"global_samples\":99}\n");
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == "step,lr\n8,1\n16,2\n");
}

BOOST_AUTO_TEST_CASE(another_file_under_a_curves_name_is_refused_before_anything_changes) {
  const std::string curve = "step,train_loss\n8,1\n99,2\n";
  const std::vector<std::pair<std::string, std::string>> strangers = {
      {"Validation_Samples_loss.csv", "time,loss\n1,2\n"},
      {"Validation_Samples_loss.csv", "step,loss,mine\n"},
      {"Validation_Samples_loss.csv", "4000\n5000\n"},
      {"Train_Samples_elapsed_time_ms_step.csv", "a line that is not torn off ours"},
      {"steps.jsonl", "{\"epoch\":1,\"global_samples\":99}\n"},
      {"steps.jsonl", "{\"step\":1}\n"},
      {"steps.jsonl", "[1, 2]"}};
  for (const auto& [name, text] : strangers)
    for (const auto after : {std::optional<uint64_t>(16), std::optional<uint64_t>()}) {
      const scratch_folder f;
      f.write("csv/Train_Samples_train_loss.csv", curve);
      f.write("csv/" + name, text);
      const auto did = telemetry::curve_files::open({f / "csv", f / "events", f / "csv/steps.jsonl", after}, 0);
      BOOST_TEST_REQUIRE(!did.has_value());
      BOOST_TEST((did.error().kind == core::error_kind::bad_input));
      const std::string key = name == "steps.jsonl" ? "telemetry.json_lines: " : "csv_monitor: ";
      BOOST_TEST(did.error().text.starts_with(key + (f / "csv/").string() + name + " begins with '"), did.error().text);
      BOOST_TEST(did.error().text.ends_with(
                     ", wanted a curve of an earlier run or nothing: move it, or choose another folder"),
                 did.error().text);
      BOOST_TEST(scratch_folder::read(f / ("csv/" + name)) == text);
      BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_train_loss.csv") == curve);
      BOOST_TEST(std::distance(fs::directory_iterator(f / "csv"), {}) == 2);
      BOOST_TEST(!fs::exists(f / "events"));
    }
  const scratch_folder f;
  fs::create_directories(f / "csv/Train_Samples_lr.csv");
  check_failed(telemetry::curve_files::open({f / "csv", {}, {}, 16}, 0), "Train_Samples_lr.csv is not a file, wanted");
}

BOOST_AUTO_TEST_CASE(a_first_row_torn_by_a_crash_is_still_a_curve) {
  for (const std::string text : {"", "st", "step,lr", "step,lr\n", "step,lr\n24,"}) {
    BOOST_TEST_INFO_SCOPE(text);
    const scratch_folder f;
    f.write("csv/Train_Samples_lr.csv", text);
    f.write("steps.jsonl", text.empty() ? "" : "{\"ste");
    auto files = check_ok(telemetry::curve_files::open({f / "csv", {}, f / "steps.jsonl", 16}, 0));
    const std::vector<curve_value> values = {{"Train/Samples/lr", 2}};
    BOOST_TEST(files->write(0, 24, values).has_value());
    BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == "step,lr\n24,2\n");
    BOOST_TEST(scratch_folder::read(f / "steps.jsonl").empty());
  }
}

BOOST_AUTO_TEST_CASE(a_file_is_cut_after_its_last_valid_row) {
  const scratch_folder f;
  const auto cut = [&](const std::string& text, uint64_t last, row_place place) {
    f.write("a", text);
    BOOST_TEST(cut_curve(f / "a", last, place).has_value());
    return scratch_folder::read(f / "a");
  };
  BOOST_TEST(cut("", 8, csv_place).empty());
  BOOST_TEST(cut("step,lr", 8, csv_place).empty());
  BOOST_TEST(cut("step,lr\n", 8, csv_place) == "step,lr\n");
  BOOST_TEST(cut("step,lr\n8,1\n9,2\n", 8, csv_place) == "step,lr\n8,1\n");
  BOOST_TEST(cut("8,1\n8,2\n16,", 8, csv_place) == "8,1\n8,2\n");
  BOOST_TEST(cut("{\"step\":9,\"global_samples\":8,\"x\":1}\n{\"global_samples\":99}\n", 8, json_place) ==
             "{\"step\":9,\"global_samples\":8,\"x\":1}\n");
  BOOST_TEST(cut(std::string(row_bytes_limit + 1, 'x') + "\n", 8, csv_place).empty());
  BOOST_TEST(cut_curve(f / "none", 8, csv_place).has_value());
}

BOOST_AUTO_TEST_CASE(files_that_are_not_asked_for_are_not_made) {
  const scratch_folder f;
  auto files = check_ok(telemetry::curve_files::open({}, 0));
  const std::vector<curve_value> values = {{"a/b", 1.0}};
  BOOST_TEST(files->write(5, 300, values).has_value());
  BOOST_TEST(files->write_line("{}").has_value());
  BOOST_TEST(fs::is_empty(f.path()));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_refused_with_the_key_that_asks_for_it) {
  const scratch_folder f;
  f.write("taken", "a file");
  const auto refused = [](const curve_options& o) {
    const auto did = telemetry::curve_files::open(o, 0);
    BOOST_TEST_REQUIRE(!did.has_value());
    BOOST_TEST((did.error().kind == core::error_kind::io));
    return did.error().text;
  };
  const std::string csv = refused({f / "taken/csv", {}, {}});
  BOOST_TEST(csv == "csv_monitor: cannot make the folder " + (f / "taken/csv").string() + ": Not a directory");
  BOOST_TEST(refused({{}, f / "taken", {}}).starts_with("tensorboard: cannot make the folder "));
  BOOST_TEST(refused({{}, {}, f / "taken/steps.jsonl"}).starts_with("telemetry.json_lines: cannot make the folder "));
  // No user, not even root, can create a file in this folder.
  BOOST_TEST(refused({"/proc/self/task", {}, {}}).starts_with("csv_monitor: cannot create /proc/self/task/"));
}

BOOST_AUTO_TEST_CASE(two_runs_do_not_write_into_one_folder_of_csv_files) {
  const scratch_folder f;
  const std::vector<curve_value> values = {{"Train/Samples/lr", 1}};
  const auto open = [&](const std::string& run, std::optional<uint64_t> after, bool took_over = false) {
    return telemetry::curve_files::open({f / "csv", f / "events", {}, after, f / run, took_over}, 0);
  };
  const auto refusal = [&](const std::string& run, std::optional<uint64_t> after) {
    const auto did = open(run, after);
    BOOST_TEST_REQUIRE(!did.has_value());
    BOOST_TEST((did.error().kind == core::error_kind::bad_input));
    return did.error().text;
  };
  const std::string before = "step,lr\n8,1\n", folder = "csv_monitor: '" + (f / "csv").string() + "' ";
  {
    auto first = open("a", std::nullopt);
    BOOST_TEST_REQUIRE(first.has_value());
    BOOST_TEST(first->write(0, 8, values).has_value());
    for (const auto after : {std::optional<uint64_t>(), std::optional<uint64_t>(4)})
      BOOST_TEST(refusal("b", after) ==
                 folder +
                     "is in use: this process writes curves there, and rows of two runs would be mixed; wait "
                     "until it ends, or set another job_name or output_path");
    BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == before);
    // The job of a lost process continues elsewhere while that process still has the folder.
    BOOST_TEST(open("a", 8).has_value());
    BOOST_TEST(open("b", 8, true).has_value());
  }
  BOOST_TEST(refusal("b", 4) ==
             folder + "has the curves of the run in '" + (f / "a").string() +
                 "', which this run would cut and append to, because it resumes; set another job_name or output_path, "
                 "or remove '" +
                 (f / "csv/.curves").string() + "' if the curves are this run's");
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == before);
  {
    auto again = open("a", 8);
    BOOST_TEST_REQUIRE(again.has_value());
    BOOST_TEST(again->write(0, 16, values).has_value());
  }
  BOOST_TEST(scratch_folder::read(f / "csv/Train_Samples_lr.csv") == before + "16,1\n");
  // A new run renames the existing curves; the new files belong to the new run.
  BOOST_TEST(open("b", std::nullopt).has_value());
  BOOST_TEST(refusal("a", 8).starts_with(folder + "has the curves of the run in '" + (f / "b").string() + "'"));
  fs::remove(f / "csv/.curves");
  BOOST_TEST(open("a", 8).has_value());
}

BOOST_AUTO_TEST_CASE(curves_that_move_with_their_run_are_still_its_own) {
  const scratch_folder f;
  const auto open = [](const fs::path& run, std::optional<uint64_t> after) {
    return telemetry::curve_files::open({run / "csv", {}, {}, after, run}, 0).has_value();
  };
  BOOST_TEST(open(f / "a", std::nullopt));
  fs::rename(f / "a", f / "moved");
  BOOST_TEST(open(f / "moved", 8));
}

BOOST_AUTO_TEST_CASE(a_file_that_vanished_is_reported_and_the_curves_are_not_complete) {
  const scratch_folder f;
  auto files = check_ok(telemetry::curve_files::open({f / "csv", {}, {}}, 0));
  fs::remove_all(f / "csv");
  const std::vector<curve_value> values = {{"a/b", 1.0}};
  BOOST_TEST(!files->write(5, 300, values).has_value());
  BOOST_TEST(!files->complete());
}

BOOST_AUTO_TEST_SUITE_END()
