#include "apps/simulate/machine_calibration.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "actors/rates/measured_rates.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/terminal.hpp"
#include "apps/plan/plan_costs.hpp"
#include "core/text.hpp"
#include "job/kept_costs.hpp"
#include "job/measured_costs.hpp"
#include "plan/choose/machine_costs.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Returns a value in a unit that people read: GFLOP/s, GB/s, microseconds.
std::string value_of(const plan::machine_constant& c, double value) {
  if (c.unit == "flop/s") return fmt::format("{:.4g} GFLOP/s", value / 1e9);
  if (c.unit == "B/s") return fmt::format("{:.4g} GB/s", value / 1e9);
  if (c.unit == "s") return fmt::format("{:.3g} us", value * 1e6);
  return fmt::format("{:.4g} {}", value, c.unit);
}

std::string table_of(const job::kept_costs& kept) {
  std::string out;
  for (const auto& type : kept.types) {
    std::vector<std::vector<std::string>> rows{
        {std::string(core::name_of(type.type)), "median", "middle half", "meaning"}};
    for (const auto& c : plan::machine_constants())
      rows.push_back({std::string(c.name), value_of(c, type.median.*c.field),
                      fmt::format("{} to {}", value_of(c, type.lower.*c.field), value_of(c, type.upper.*c.field)),
                      std::string(c.meaning)});
    out += core::aligned(rows, {false, true, false, false}) + "\n";
  }
  return out;
}

nlohmann::ordered_json object_of(const job::kept_costs& kept) {
  using object = nlohmann::ordered_json;
  object types = object::object();
  for (const auto& type : kept.types) {
    object constants = object::object();
    for (const auto& c : plan::machine_constants())
      constants[std::string(c.name)] = {{"value", type.median.*c.field},
                                        {"lower", type.lower.*c.field},
                                        {"upper", type.upper.*c.field},
                                        {"unit", c.unit}};
    types[std::string(core::name_of(type.type))] = std::move(constants);
  }
  object out{{"format", "troupe calibrate"},
             {"version", 1},
             {"processor", kept.machine.processor},
             {"cores", kept.machine.cores},
             {"memory_bytes", kept.machine.memory_bytes},
             {"build", kept.machine.build},
             {"share_of_others", kept.share_of_others},
             {"types", types}};
  if (kept.disk)
    out["disk"] = {{"folder", kept.disk->folder},
                   {"read_bytes_per_s", kept.disk->read_bytes_per_s},
                   {"written_bytes_per_s", kept.disk->written_bytes_per_s}};
  return out;
}

/// Measures the disk of a folder, which must exist; its absolute path is kept.
core::result<job::disk_costs> measured_disk_of(const std::string& folder) {
  constexpr uint64_t block_bytes = uint64_t{1} << 20;
  constexpr uint32_t passes = 3;
  std::error_code failed;
  const auto whole = fs::canonical(folder, failed);
  if (failed || !fs::is_directory(whole, failed))
    return core::refused(fmt::format("--disk: wanted a folder on the disk to measure, got {}", core::shown(folder)));
  auto out = job::measured_disk(whole, block_bytes, passes);
  if (!out) return core::fail(out.error().kind, "--disk: " + out.error().text);
  return out;
}

/// Writes the file. Returns why nothing is kept, empty if it is written.
core::result<std::string> keep(const job::kept_costs& kept, const fs::path& file) {
  if (kept.share_of_others > job::most_share_of_others)
    return fmt::format(
        "other programs used {:.0f} % of all cores' time, at most {:.0f} % are kept: measure again when "
        "the machine is idle",
        100 * kept.share_of_others, 100 * job::most_share_of_others);
  if (file.empty()) return std::string("neither XDG_CACHE_HOME nor HOME names a folder for it");
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  TROUPE_TRY(storage::write_file_atomically(file, job::text_of(kept)));
  return std::string();
}

}  // namespace

int calibrate_machine(const std::string& disk_folder, output_form form) {
  job::kept_costs kept;
  kept.machine = own_machine();
  const bool tells = form == output_form::text && rewrites_lines(STDERR_FILENO);
  const auto tell = [&](const std::string& what) {
    if (tells) std::fprintf(stderr, "\r\033[Kmeasuring %s", what.c_str());
  };
  if (!disk_folder.empty()) {
    tell("the disk");
    auto disk = measured_disk_of(disk_folder);
    if (!disk) return failed(disk.error());
    kept.disk = *std::move(disk);
  }
  auto measured = actors::measure_rates(kept.machine.cores, tell);
  if (tells) std::fprintf(stderr, "\r\033[K");
  if (!measured) return failed(measured.error());
  kept.measured_at_s = static_cast<double>(std::time(nullptr));
  kept.share_of_others = measured->share_of_others;
  kept.types = std::move(measured->types);
  const auto file = job::kept_costs_file(kept.machine);
  const auto why = keep(kept, file);
  if (!why) return failed(why.error());
  if (form == output_form::json) {
    auto out = object_of(kept);
    out["kept"] = why->empty() ? nlohmann::ordered_json(file.string()) : nlohmann::ordered_json(nullptr);
    if (!why->empty()) out["why_not_kept"] = *why;
    std::printf("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return 0;
  }
  std::printf("%s, %u cores at the same time, %.1f s; other programs used %.1f %% of the cores' time\n\n%s",
              core::printable_line(kept.machine.processor).c_str(), kept.machine.cores, measured->took_s,
              100 * kept.share_of_others, table_of(kept).c_str());
  if (kept.disk)
    std::printf("disk of %s: reading %.2f GB/s, writing %.2f GB/s\n", core::printable_line(kept.disk->folder).c_str(),
                kept.disk->read_bytes_per_s / 1e9, kept.disk->written_bytes_per_s / 1e9);
  if (why->empty())
    std::printf("kept in %s: troupe plan and troupe simulate predict by it\n", file.c_str());
  else
    std::printf("not kept: %s\n", why->c_str());
  return 0;
}

}  // namespace troupe::apps
