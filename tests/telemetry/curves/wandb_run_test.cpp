// Tests offline runs of W&B: the bytes of records and frames, resumed runs, files that are cut off. The test with the
// package's own reader is in tests/peer/wandb_reads_ours.py.
#include "telemetry/curves/wandb_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "telemetry/curves/curve_files.hpp"
#include "telemetry/curves/protobuf.hpp"
#include "telemetry/curves/wandb_record.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(wandb_run)

using namespace troupe;
using namespace troupe::telemetry;
using tests::scratch_folder;
using troupe::tests::check_ok;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

const tracked_run about = {"job", {{"steps", "7", false}, {"data.text", "\"/a b\"", false}, {"seed", "0", true}}};

wandb_options options_in(const scratch_folder& f) { return {f / "wandb", "p", "g", "us", about}; }

std::vector<curve_value> rate_of(double value) { return {{"Train/Samples/lr", value}}; }

/// Returns the folders of offline runs, sorted.
std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(folder))
    if (!e.is_symlink()) out.push_back(e.path());
  std::ranges::sort(out);
  return out;
}

/// Returns the records of a file whose frames are all whole, by a reader that knows nothing of Troupe's.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> out;
  size_t at = 7;
  while (at < file.size()) {
    if (32768 - at % 32768 < 7) at += 32768 - at % 32768;
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file.at(at + i))); };
    const size_t length = byte(4) | byte(5) << 8, kind = byte(6);
    if (kind == 1 || kind == 2) out.emplace_back();
    out.back() += file.substr(at + 7, length);
    at += 7 + length;
  }
  return out;
}

/// Returns the values of `key` in all rows of curves.
std::vector<std::string> column(const std::string& file, const std::string& key) {
  std::vector<std::string> out;
  for (const auto& record : records_of(file)) {
    std::string_view fields = record;
    while (const auto field = take_field(fields)) {
      if (field->number != 2) continue;
      std::string_view items = field->bytes;
      while (const auto item = take_field(items)) {
        std::string_view parts = item->bytes;
        const auto name = take_field(parts), value = take_field(parts);
        if (item->number == 1 && name && value && name->bytes == key) out.emplace_back(value->bytes);
      }
    }
  }
  return out;
}

std::optional<wandb_kept> kept_of(const std::string& file, uint64_t last) {
  std::istringstream in(file);
  return wandb_kept_of(in, last);
}

}  // namespace

// The bytes are those of the package wandb 0.31 for messages with the same values.
BOOST_AUTO_TEST_CASE(records_are_the_bytes_that_wandb_writes) {
  const std::vector<curve_value> values = rate_of(0.001);
  const wandb_row row{0, 8, 1796091404.5, 1, values};
  const std::string items =
      "\x0A\x1A\x12\x10Train/Samples/lr\x82\x01\x05"
      "0.001\x0A\x14\x12\x0Eglobal_samples\x82\x01\x01"
      "8\x0A\x0B\x12"
      "\x05_step\x82\x01\x01"
      "0\x0A\x1B\x12\x0A_timestamp\x82\x01\x0C"
      "1796091404.5\x0A\x0E\x12\x08_runtime\x82\x01"
      "\x01"
      "1"s;
  BOOST_TEST(wandb_header_record(1) == "\x08\x01\xAA\x01\x0A\x0A\x08\x0A\x06troupe"s);
  BOOST_TEST(wandb_run_record(2, {"abcd1234", "p", "g", "us", "node", 1796091403.5}, about) ==
             "\x08\x02\x8A\x01"
             "b\x0A\x08"
             "abcd1234\x12\x02us\x1A\x01p\"2\x0A\x0D\x0A\x06_wandb\x82\x01\x02{}\x0A"
             "\x0B\x0A\x05steps\x82\x01\x01"
             "7\x0A\x14\x0A\x09"
             "data.text\x82\x01\x06\"/a b\"2\x01gB\x03jobj\x04node"
             "\x8A\x01\x0C\x08\x8B\xDC\xB8\xD8\x06\x10\x80\xCA\xB5\xEE\x01"s);
  BOOST_TEST(wandb_axis_record(3) ==
             "\x08\x03"
             "b\x14\x0A\x0Eglobal_samples2\x02\x18\x01"s);
  BOOST_TEST(wandb_curves_record(4) ==
             "\x08\x04"
             "b\x19\x12\x01*\"\x0Eglobal_samples2\x04\x08\x01\x18\x01"s);
  BOOST_TEST(wandb_history_record(5, row) == "\x08\x05\x12n"s + items + "\x12\0"s);
  BOOST_TEST(wandb_summary_record(6, row) == "\x08\x06\x1Al"s + items);
  BOOST_TEST(wandb_settings_record(7, {"job", {{"steps", "7", false}, {"seed", "0", true}}}) ==
             "\x08\x07*\x15\x0A\x0B\x0A\x05steps\x82\x01\x01"
             "7\x12\x06\x0A\x04seed"s);
  BOOST_TEST(wandb_end_record(8, verdict::stopped, 12.9) == "\x08\x08\x92\x01\x05\x08\xFF\x01\x10\x0C"s);
  BOOST_TEST(wandb_end_record(8, verdict::done, 0) == "\x08\x08\x92\x01\0"s);
}

BOOST_AUTO_TEST_CASE(values_are_the_json_that_python_writes) {
  BOOST_TEST(wandb_number(0.1) == "0.1");
  BOOST_TEST(wandb_number(NAN) == "NaN");
  BOOST_TEST(wandb_number(INFINITY) == "Infinity");
  BOOST_TEST(wandb_number(-INFINITY) == "-Infinity");
  BOOST_TEST(wandb_setting("true") == "true");
  BOOST_TEST(wandb_setting("12") == "12");
  BOOST_TEST(wandb_setting("1e-05") == "1e-05");
  BOOST_TEST(wandb_setting("AdamW") == "\"AdamW\"");
  BOOST_TEST(wandb_setting("\"a b\"") == "\"a b\"");
  BOOST_TEST(wandb_setting("[0.9, 0.95]") == "\"[0.9, 0.95]\"");
  BOOST_TEST(wandb_setting(".nan") == "\".nan\"");
  BOOST_TEST(wandb_setting("inf") == "\"inf\"");
}

BOOST_AUTO_TEST_CASE(frames_do_not_cross_blocks_and_are_read_back_at_every_place) {
  for (const size_t longest : {1UL, 300UL, 32761UL, 32762UL, 100000UL}) {
    std::string file(wandb_head);
    std::vector<std::string> written = {wandb_run_record(1, {"id", "p", "", "", "", 3.25}, {})};
    for (size_t i = 0; i < 40; ++i) {
      // Fields that no reader knows, of all sizes up to the longest.
      std::string record;
      put_integer(record, 1, i + 2);
      put_bytes(record, 90, std::string(longest * i / 40, static_cast<char>('a' + i % 26)));
      written.push_back(record);
    }
    for (const auto& record : written) {
      file += wandb_frames(record, file.size());
      const auto kept = kept_of(file, 0);
      BOOST_TEST_REQUIRE(kept.has_value());
      BOOST_TEST(kept->bytes == file.size());
    }
    BOOST_TEST((records_of(file) == written), longest);
    const auto kept = kept_of(file, 0);
    BOOST_TEST(kept->records == written.size());
    BOOST_TEST(kept->id == "id");
    BOOST_TEST(kept->begin_s == 3.25);
  }
  // A frame of no bytes fits exactly behind a record that leaves 7 bytes of its block.
  std::string file(wandb_head);
  std::string record;
  put_bytes(record, 90, std::string(wandb_block_bytes - 7 - 7 - 7 - 5, 'a'));
  BOOST_TEST_REQUIRE(record.size() == wandb_block_bytes - 21);
  file += wandb_frames(record, file.size());
  BOOST_TEST_REQUIRE(file.size() == wandb_block_bytes - 7);
  file += wandb_frames(wandb_run_record(2, {"id", "p", "", "", "", 1}, {}), file.size());
  BOOST_TEST(kept_of(file, 0)->records == 2U);
  BOOST_TEST(kept_of(file, 0)->bytes == file.size());
}

BOOST_AUTO_TEST_CASE(a_run_has_a_folder_a_file_and_a_link) {
  const scratch_folder f;
  auto run = check_ok(telemetry::wandb_run::open(options_in(f), 1796091403.5, std::nullopt));
  const fs::path file = run->file(), folder = file.parent_path();
  const std::string name = folder.filename().string(), id = name.substr(name.size() - 8);
  BOOST_TEST(name.starts_with("offline-run-2026"), name);
  BOOST_TEST(name.size() == std::string("offline-run-20261201_021643-abcd1234").size());
  BOOST_TEST(file.filename().string() == "run-" + id + ".wandb");
  BOOST_TEST(fs::is_directory(folder / "files"));
  BOOST_TEST((fs::read_symlink(f / "wandb/latest-run") == folder.filename()));
  BOOST_TEST(run->write(1796091404.5, 8, rate_of(0.5)).has_value());
  BOOST_TEST(run->write(1796091405.5, 16, rate_of(NAN)).has_value());
  BOOST_TEST(run->end(1796091406.5, verdict::done).has_value());
  const std::string bytes = scratch_folder::read(file);
  BOOST_TEST(bytes.starts_with(wandb_head));
  BOOST_TEST(column(bytes, "global_samples") == (std::vector<std::string>{"8", "16"}),
             boost::test_tools::per_element());
  BOOST_TEST(column(bytes, "_step") == (std::vector<std::string>{"0", "1"}), boost::test_tools::per_element());
  BOOST_TEST(column(bytes, "_runtime") == (std::vector<std::string>{"1", "2"}), boost::test_tools::per_element());
  BOOST_TEST(column(bytes, "Train/Samples/lr") == (std::vector<std::string>{"0.5", "NaN"}),
             boost::test_tools::per_element());
  BOOST_TEST(records_of(bytes).back() == wandb_end_record(9, verdict::done, 3));
  BOOST_TEST(run->complete());
}

BOOST_AUTO_TEST_CASE(a_resumed_run_continues_its_own_file) {
  const scratch_folder f;
  fs::path file;
  {
    auto run = check_ok(telemetry::wandb_run::open(options_in(f), 1796091403, std::nullopt));
    file = run->file();
    for (uint64_t step = 1; step <= 4; ++step)
      BOOST_TEST(run->write(1796091403 + double(step), 8 * step, rate_of(1)).has_value());
    BOOST_TEST(run->end(1796091409, verdict::stopped).has_value());
  }
  const std::string local = fs::relative(file, f.path()).string();
  f.write(local + ".synced", "");
  const auto is_column = [&](std::vector<std::string> samples, std::vector<std::string> rates) {
    const std::string bytes = scratch_folder::read(file);
    BOOST_TEST(column(bytes, "global_samples") == samples, boost::test_tools::per_element());
    BOOST_TEST(column(bytes, "Train/Samples/lr") == rates, boost::test_tools::per_element());
    const auto steps = column(bytes, "_step");
    for (size_t i = 0; i < steps.size(); ++i) BOOST_TEST(steps[i] == fmt::to_string(i));
  };
  {
    auto run = check_ok(telemetry::wandb_run::open(options_in(f), 1796091410, 16));
    BOOST_TEST((run->file() == file));
    BOOST_TEST(!fs::exists(file.string() + ".synced"));
    BOOST_TEST(run->write(1796091411, 24, rate_of(2)).has_value());
    is_column({"8", "16", "24"}, {"1", "1", "2"});
    BOOST_TEST(column(scratch_folder::read(file), "_runtime").back() == "8");
    BOOST_TEST(run->write(1796091412, 32, rate_of(2)).has_value());
    BOOST_TEST(run->go_back(1796091413, 24).has_value());
    BOOST_TEST(run->write(1796091414, 32, rate_of(3)).has_value());
    is_column({"8", "16", "24", "32"}, {"1", "1", "2", "3"});
    BOOST_TEST(run->complete());
  }
  // The process ended without a record of that, in the middle of a record.
  const std::string whole = scratch_folder::read(file);
  f.write(local, whole.substr(0, whole.size() - 3));
  {
    auto run = check_ok(telemetry::wandb_run::open(options_in(f), 1796091415, 32));
    BOOST_TEST(run->write(1796091416, 40, rate_of(4)).has_value());
    is_column({"8", "16", "24", "32", "40"}, {"1", "1", "2", "3", "4"});
    // A run that goes back to its begin is a new one.
    BOOST_TEST(run->go_back(1796091417, 0).has_value());
    BOOST_TEST((run->file() != file));
  }
  BOOST_TEST(runs_in(f / "wandb").size() == 2U);
  const auto records = records_of(scratch_folder::read(file));
  BOOST_TEST(records.back() == wandb_end_record(records.size(), verdict::stopped, 14));
  // A folder whose run was removed gets a new one.
  fs::remove_all(file.parent_path());
  fs::remove(f / "wandb/latest-run");
  auto run = check_ok(telemetry::wandb_run::open(options_in(f), 1796091418, 8));
  BOOST_TEST(runs_in(f / "wandb").size() == 2U);
  BOOST_TEST(column(scratch_folder::read(run->file()), "global_samples").empty());
}

BOOST_AUTO_TEST_CASE(a_file_is_kept_up_to_the_first_bytes_that_are_no_record) {
  std::string file(wandb_head);
  std::vector<size_t> ends;
  const auto add = [&](const std::string& record) {
    file += wandb_frames(record, file.size());
    ends.push_back(file.size());
  };
  const std::vector<curve_value> values = rate_of(1);
  add(wandb_header_record(1));
  add(wandb_run_record(2, {"id", "p", "", "", "", 1}, about));
  for (uint64_t i = 0; i < 3; ++i) add(wandb_history_record(3 + i, {i, 8 * (i + 1), 2, 1, values}));
  for (size_t n = 0; n <= file.size(); ++n) {
    const auto kept = kept_of(file.substr(0, n), 100);
    const auto whole = std::ranges::upper_bound(ends, n) - ends.begin();
    BOOST_TEST(kept.has_value() == (whole >= 2), n);
    if (kept) BOOST_TEST(kept->bytes == ends[static_cast<size_t>(whole) - 1], n);
  }
  for (size_t n = 0; n < file.size(); ++n) {
    std::string wrong = file;
    wrong[n] = static_cast<char>(wrong[n] ^ 0x10);
    const auto kept = kept_of(wrong, 100);
    if (kept) BOOST_TEST(kept->bytes <= n, n);
  }
  BOOST_TEST(kept_of(file, 16)->rows == 2U);
  BOOST_TEST(kept_of(file, 7)->rows == 0U);
  BOOST_TEST(kept_of(file, 7)->records == 2U);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_refused_with_its_key_and_a_removed_run_is_said) {
  const scratch_folder f;
  f.write("taken", "a file");
  curve_options o;
  o.wandb = options_in(f);
  o.wandb->folder = f / "taken/wandb";
  const auto did = telemetry::curve_files::open(o, 0);
  BOOST_TEST_REQUIRE(!did.has_value());
  BOOST_TEST(did.error().text.starts_with("wandb: cannot make the folder "), did.error().text);
  o.wandb = options_in(f);
  auto files = check_ok(telemetry::curve_files::open(o, 1));
  fs::remove_all(f / "wandb");
  BOOST_TEST(!files->write(2, 8, rate_of(1)).has_value());
  BOOST_TEST(files->has_removed_file());
  BOOST_TEST(!files->complete());
}

BOOST_AUTO_TEST_SUITE_END()
