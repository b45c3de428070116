#include "job/kept_costs.hpp"

#include <cstdlib>
#include <fstream>

#include "plan/choose/machine_costs.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(kept_costs)

using namespace troupe;
using tests::check_failed;
using tests::check_ok;
using tests::has;

namespace {

namespace fs = std::filesystem;

job::kept_costs some_costs() {
  job::kept_costs out;
  out.machine = {"A processor's name @ 2.0GHz", 2, uint64_t{16} << 30, "1.2.3, LibTorch 2.4.1"};
  out.measured_at_s = 1.75e9;
  out.share_of_others = 0.03;
  for (const auto type : {core::dtype::f32, core::dtype::bf16}) {
    auto& one = out.types.emplace_back();
    one.type = type;
    double next = type == core::dtype::f32 ? 1.5 : 2.5;
    for (const auto& c : plan::machine_constants()) {
      one.lower.*c.field = next;
      one.median.*c.field = next * 1.5;
      one.upper.*c.field = next * 2;
      next *= 1.7;
    }
  }
  return out;
}

/// Returns the text with the first `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  BOOST_TEST_REQUIRE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_reads_back_to_the_same_constants) {
  auto costs = some_costs();
  BOOST_TEST((*check_ok(job::read_kept_costs(job::text_of(costs), "f")) == costs));
  costs.disk = job::disk_costs{"/a folder/with 'quotes'", 2e9, 1.5e9};
  costs.types.pop_back();
  BOOST_TEST((*check_ok(job::read_kept_costs(job::text_of(costs), "f")) == costs));
}

BOOST_AUTO_TEST_CASE(a_text_that_is_not_understood_is_refused_by_name_and_line) {
  const auto text = job::text_of(some_costs());
  const auto refuse = [&](const std::string& from, const std::string& to, const std::string& words) {
    const auto read = job::read_kept_costs(replaced(text, from, to), "f.yaml");
    check_failed(read, words);
    check_failed(read, "f.yaml:");
    check_failed(read, "troupe calibrate");
  };
  refuse("launch_s:", "lunch_s:", "lunch_s");
  refuse("unit: 'B/s'", "unit: 'GB/s'", "GB/s");
  refuse("cores: 2", "cores: two", "cores");
  refuse("value: 2.25", "value: 0", "above 0");
  refuse("value: 2.25", "value: -1", "above 0");
  refuse("measured_at_s:", "measured:", "measured");
  refuse("  fp32:", "  fp64:", "fp64");
  refuse("machine:", "[", "");
  check_failed(job::read_kept_costs("", "f.yaml"), "f.yaml");
}

BOOST_AUTO_TEST_CASE(a_file_of_another_machine_or_build_is_refused_and_a_missing_one_is_none) {
  const tests::scratch_folder folder;
  const fs::path file = folder.path() / "kept.yaml";
  const auto costs = some_costs();
  BOOST_TEST(!check_ok(job::open_kept_costs(file, costs.machine))->has_value());
  std::ofstream(file) << job::text_of(costs);
  BOOST_TEST((**check_ok(job::open_kept_costs(file, costs.machine)) == costs));
  auto other = costs.machine;
  other.cores = 4;
  check_failed(job::open_kept_costs(file, other), "4 cores");
  other = costs.machine;
  other.build = "9.9.9";
  check_failed(job::open_kept_costs(file, other), "9.9.9");
}

BOOST_AUTO_TEST_CASE(the_file_is_in_the_cache_folder_of_the_environment) {
  const auto machine = some_costs().machine;
  const char* const home = std::getenv("HOME");
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const std::string old_home = home == nullptr ? "" : home, old_cache = cache == nullptr ? "" : cache;
  ::setenv("XDG_CACHE_HOME", "/c", 1);
  ::setenv("HOME", "/h", 1);
  BOOST_TEST(job::kept_costs_file(machine).string() ==
             "/c/troupe/a-processor-s-name-2.0ghz-2-cores-16.0-gib-1.2.3-libtorch-2.4.1.yaml");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  BOOST_TEST(job::kept_costs_file(machine).parent_path().string() == "/h/.cache/troupe");
  ::unsetenv("HOME");
  BOOST_TEST(job::kept_costs_file(machine).empty());
  ::unsetenv("XDG_CACHE_HOME");
  BOOST_TEST(job::kept_costs_file(machine).empty());
  if (home != nullptr) ::setenv("HOME", old_home.c_str(), 1);
  if (cache != nullptr) ::setenv("XDG_CACHE_HOME", old_cache.c_str(), 1);
}

BOOST_AUTO_TEST_CASE(the_machine_is_known_by_what_its_kernel_says) {
  const tests::scratch_folder folder;
  fs::create_directories(folder.path() / "proc");
  std::ofstream(folder.path() / "proc/cpuinfo") << "processor\t: 0\nmodel name\t: Some  Chip \nmodel name\t: Other\n";
  std::ofstream(folder.path() / "proc/meminfo") << "MemTotal:       16000000 kB\nMemAvailable:   1 kB\n";
  const auto machine = job::this_machine("b", folder.path());
  BOOST_TEST(machine.processor == "Some  Chip");
  BOOST_TEST(machine.memory_bytes == uint64_t{61} << 28);
  BOOST_TEST(machine.build == "b");
  BOOST_TEST(machine.cores > 0U);
  BOOST_TEST(job::this_machine("b", folder.path() / "none").processor == "unknown");
}

BOOST_AUTO_TEST_CASE(a_cost_model_has_the_constants_of_its_type_and_says_how_old_they_are) {
  auto costs = some_costs();
  const plan::cost_model usual;
  const auto model = *check_ok(job::model_by(costs, core::dtype::bf16, usual, "", costs.measured_at_s + 7300));
  const auto& alone = costs.types[1].median;
  BOOST_TEST((model.costs.machine == job::within_a_step(alone)));
  BOOST_TEST(model.costs.flops_per_s == alone.product_flops_per_s / job::in_step_factor);
  BOOST_TEST(model.costs.machine.copy_bytes_per_s == alone.copy_bytes_per_s);
  BOOST_TEST((*model.spread == costs.types[1]));
  BOOST_TEST(model.costs.latency_s == costs.types[1].median.wakeup_s);
  BOOST_TEST(model.costs.disk_bytes_per_s == usual.disk_bytes_per_s);
  BOOST_TEST(model.source == "measured 2 hours ago by troupe calibrate on 2 cores");
  BOOST_TEST(!job::model_by(costs, core::dtype::f16, usual, "", 0).has_value());
}

BOOST_AUTO_TEST_CASE(a_measured_disk_has_the_rates_of_swap_folders_on_it_alone) {
  const tests::scratch_folder folder;
  const plan::cost_model usual;
  auto costs = some_costs();
  costs.disk = job::disk_costs{folder.path().string(), 3e9, 4e9};
  const auto by = [&](const fs::path& swap) {
    return (*check_ok(job::model_by(costs, core::dtype::f32, usual, swap, 0))).costs;
  };
  for (const fs::path& swap : {folder.path(), folder.path() / "not/yet/made"}) {
    BOOST_TEST(by(swap).disk_read_bytes_per_s == 3e9, swap.string());
    BOOST_TEST(by(swap).disk_bytes_per_s == 4e9, swap.string());
  }
  for (const fs::path& swap : {fs::path(), fs::path("/proc")})
    BOOST_TEST(by(swap).disk_read_bytes_per_s == usual.disk_read_bytes_per_s, swap.string());
}

BOOST_AUTO_TEST_CASE(an_age_has_one_unit) {
  BOOST_TEST(job::age_text(-5) == "0 seconds");
  BOOST_TEST(job::age_text(1.5) == "1 second");
  BOOST_TEST(job::age_text(150) == "2 minutes");
  BOOST_TEST(job::age_text(3600) == "1 hour");
  BOOST_TEST(job::age_text(40.0 * 86400) == "40 days");
}

BOOST_AUTO_TEST_SUITE_END()
