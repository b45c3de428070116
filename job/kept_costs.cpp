#include "job/kept_costs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "config/document/document.hpp"
#include "config/document/scalars.hpp"
#include "core/number.hpp"
#include "core/source_file.hpp"
#include "core/system/cores.hpp"
#include "core/text.hpp"
#include "job/machine_load.hpp"
#include "plan/choose/machine_costs.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::job {
namespace {

namespace fs = std::filesystem;
using config::node;

constexpr uint64_t most_kept_bytes = uint64_t{1} << 20;
/// Memory is compared in units that are larger than what another kernel reserves of it.
constexpr uint64_t memory_grain_bytes = uint64_t{256} << 20;
constexpr core::dtype kept_types[] = {core::dtype::f32, core::dtype::bf16};
constexpr std::string_view kept_type_names[] = {"fp32", "bf16"};

/// Returns the model name of the first processor in the text of /proc/cpuinfo; "unknown" if it has none.
std::string processor_in(std::string_view text) {
  constexpr std::string_view key = "model name";
  const auto at = text.find(key);
  const auto colon = at == std::string_view::npos ? at : text.find(':', at);
  if (colon == std::string_view::npos) return "unknown";
  const auto line = text.substr(colon + 1, text.find('\n', colon) - colon - 1);
  return core::printable_line(core::trimmed(line, " \t"));
}

/// Returns the text with letters in lower case, and with one hyphen for each run of other signs than letters, digits
/// and points.
std::string file_words(std::string_view text) {
  std::string out;
  for (const char c : core::lowered(text)) {
    const bool stays = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (stays)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out;
}

/// Returns the device of a folder, or of the nearest one above it that exists; nullopt if none does.
std::optional<dev_t> disk_under(fs::path folder) {
  struct stat facts {};
  while (!folder.empty()) {
    if (::stat(folder.c_str(), &facts) == 0) return facts.st_dev;
    if (!folder.has_relative_path()) break;
    folder = folder.parent_path();
  }
  return std::nullopt;
}

/// True if both folders, or those above them that exist, are on one disk.
bool are_on_one_disk(const fs::path& measured, const fs::path& other) {
  const auto a = disk_under(measured), b = disk_under(other);
  return a && a == b;
}

/// Reads entries of a kept file; every error names the file and the line.
class kept_reader {
 public:
  explicit kept_reader(std::string file) : file_(std::move(file)) {}

  [[nodiscard]] tl::unexpected<core::error> wrong(const node& at, const std::string& what) const {
    return core::refused(fmt::format("{}:{}: {}; measure again by troupe calibrate", file_, at.at.line, what));
  }
  /// Refuses a node that is no mapping, and entries that are not among `names`.
  [[nodiscard]] core::result<void> only(const node& of, const std::vector<std::string_view>& names) const {
    if (of.kind != config::node_kind::mapping) return wrong(of, "wanted a mapping, got " + config::shown(of));
    for (const auto& e : of.entries)
      if (std::ranges::find(names, e.name) == names.end()) return wrong(*e.value, "unknown key " + core::shown(e.name));
    return {};
  }
  [[nodiscard]] core::result<const node*> entry(const node& of, std::string_view name) const {
    const node* const found = of.find(name);
    if (found == nullptr) return wrong(of, fmt::format("{} is missing", name));
    return found;
  }
  [[nodiscard]] core::result<std::string> text(const node& of, std::string_view name) const {
    TROUPE_ASSIGN(const node* const found, entry(of, name));
    if (!found->is_scalar())
      return wrong(*found, fmt::format("{}: wanted a text, got {}", name, config::shown(*found)));
    return found->text;
  }
  [[nodiscard]] core::result<double> number(const node& of, std::string_view name, bool above_zero) const {
    TROUPE_ASSIGN(const node* const found, entry(of, name));
    const auto read = found->is_scalar() ? core::number_of<double>(found->text) : std::nullopt;
    if (!read || !std::isfinite(*read) || *read < 0 || (above_zero && *read == 0))
      return wrong(*found, fmt::format("{}: wanted a number {} 0, got {}", name, above_zero ? "above" : "of at least",
                                       config::shown(*found)));
    return *read;
  }
  [[nodiscard]] core::result<uint64_t> count(const node& of, std::string_view name) const {
    TROUPE_ASSIGN(const node* const found, entry(of, name));
    const auto read = found->is_scalar() ? core::number_of<uint64_t>(found->text) : std::nullopt;
    if (!read) return wrong(*found, fmt::format("{}: wanted a count, got {}", name, config::shown(*found)));
    return *read;
  }

  core::result<machine_identity> machine(const node& of) const {
    TROUPE_TRY(only(of, {"processor", "cores", "memory_bytes", "build"}));
    machine_identity out;
    TROUPE_ASSIGN(out.processor, text(of, "processor"));
    TROUPE_ASSIGN(const uint64_t cores, count(of, "cores"));
    out.cores = static_cast<uint32_t>(cores);
    TROUPE_ASSIGN(out.memory_bytes, count(of, "memory_bytes"));
    TROUPE_ASSIGN(out.build, text(of, "build"));
    return out;
  }

  core::result<costs_of_type> costs(const node& of, core::dtype type) const {
    costs_of_type out;
    out.type = type;
    std::vector<std::string_view> names;
    for (const auto& c : plan::machine_constants()) names.push_back(c.name);
    TROUPE_TRY(only(of, names));
    for (const auto& c : plan::machine_constants()) {
      TROUPE_ASSIGN(const node* const one, entry(of, c.name));
      TROUPE_TRY(only(*one, {"value", "lower", "upper", "unit", "meaning"}));
      TROUPE_ASSIGN(out.median.*c.field, number(*one, "value", c.divides));
      TROUPE_ASSIGN(out.lower.*c.field, number(*one, "lower", c.divides));
      TROUPE_ASSIGN(out.upper.*c.field, number(*one, "upper", c.divides));
      TROUPE_ASSIGN(const std::string unit, text(*one, "unit"));
      if (unit != c.unit) return wrong(*one, fmt::format("{}: wanted the unit {}, got {}", c.name, c.unit, unit));
    }
    return out;
  }

  core::result<disk_costs> disk(const node& of) const {
    TROUPE_TRY(only(of, {"folder", "read_bytes_per_s", "written_bytes_per_s"}));
    disk_costs out;
    TROUPE_ASSIGN(out.folder, text(of, "folder"));
    TROUPE_ASSIGN(out.read_bytes_per_s, number(of, "read_bytes_per_s", true));
    TROUPE_ASSIGN(out.written_bytes_per_s, number(of, "written_bytes_per_s", true));
    return out;
  }

 private:
  std::string file_;
};

}  // namespace

machine_identity this_machine(std::string build, const fs::path& root) {
  machine_identity out;
  out.processor = processor_in(kernel_text(root / "proc/cpuinfo"));
  out.cores = core::usable_cores();
  if (const auto memory = storage::all_memory(root))
    out.memory_bytes = memory->machine_bytes / memory_grain_bytes * memory_grain_bytes;
  out.build = std::move(build);
  return out;
}

const costs_of_type* kept_costs::find(core::dtype type) const {
  const auto at = std::ranges::find(types, type, &costs_of_type::type);
  return at == types.end() ? nullptr : &*at;
}

fs::path kept_costs_file(const machine_identity& m) {
  const auto folder_in = [](const char* name) {
    const char* const value = std::getenv(name);
    fs::path out = value == nullptr ? fs::path() : fs::path(value);
    return out.is_absolute() ? out : fs::path();
  };
  fs::path cache = folder_in("XDG_CACHE_HOME");
  if (cache.empty()) {
    const fs::path home = folder_in("HOME");
    if (home.empty()) return {};
    cache = home / ".cache";
  }
  const auto name = fmt::format("{} {} cores {} {}", m.processor, m.cores, core::human_bytes(m.memory_bytes), m.build);
  return cache / "troupe" / (file_words(name) + ".yaml");
}

std::string text_of(const kept_costs& of) {
  using core::number_text;
  std::string out =
      "# What troupe calibrate measured of this machine; troupe plan and troupe simulate predict times by it.\n";
  out += fmt::format("machine:\n  processor: {}\n  cores: {}\n  memory_bytes: {}\n  build: {}\n",
                     core::yaml_quoted(of.machine.processor), of.machine.cores, of.machine.memory_bytes,
                     core::yaml_quoted(of.machine.build));
  out += fmt::format("measured_at_s: {}\nshare_of_others: {}\n", number_text(of.measured_at_s),
                     number_text(of.share_of_others));
  if (of.disk)
    out += fmt::format("disk:\n  folder: {}\n  read_bytes_per_s: {}\n  written_bytes_per_s: {}\n",
                       core::yaml_quoted(of.disk->folder), number_text(of.disk->read_bytes_per_s),
                       number_text(of.disk->written_bytes_per_s));
  out += "types:\n";
  for (const auto& type : of.types) {
    const auto at = std::ranges::find(kept_types, type.type) - std::begin(kept_types);
    out += fmt::format("  {}:\n", kept_type_names[at]);
    for (const auto& c : plan::machine_constants())
      out += fmt::format("    {}: {{value: {}, lower: {}, upper: {}, unit: {},\n      meaning: {}}}\n", c.name,
                         number_text(type.median.*c.field), number_text(type.lower.*c.field),
                         number_text(type.upper.*c.field), core::yaml_quoted(c.unit), core::yaml_quoted(c.meaning));
  }
  return out;
}

core::result<kept_costs> read_kept_costs(std::string_view text, const std::string& file) {
  const auto read = config::read_yaml(text, 0);
  if (!read.problems.empty()) {
    const auto& first = read.problems.front();
    return core::refused(fmt::format("{}:{}: {}; measure again by troupe calibrate", file, first.at.line, first.text));
  }
  const node& whole = *read.root;
  const kept_reader in(file);
  TROUPE_TRY(in.only(whole, {"machine", "measured_at_s", "share_of_others", "disk", "types"}));
  kept_costs out;
  TROUPE_ASSIGN(const node* const machine, in.entry(whole, "machine"));
  TROUPE_ASSIGN(out.machine, in.machine(*machine));
  TROUPE_ASSIGN(out.measured_at_s, in.number(whole, "measured_at_s", true));
  TROUPE_ASSIGN(out.share_of_others, in.number(whole, "share_of_others", false));
  if (const node* const disk = whole.find("disk"); disk != nullptr) {
    TROUPE_ASSIGN(auto rates, in.disk(*disk));
    out.disk = std::move(rates);
  }
  TROUPE_ASSIGN(const node* const types, in.entry(whole, "types"));
  TROUPE_TRY(in.only(*types, {std::begin(kept_type_names), std::end(kept_type_names)}));
  for (size_t i = 0; i < std::size(kept_types); ++i)
    if (const node* const one = types->find(kept_type_names[i]); one != nullptr) {
      TROUPE_ASSIGN(auto costs, in.costs(*one, kept_types[i]));
      out.types.push_back(std::move(costs));
    }
  return out;
}

core::result<std::optional<kept_costs>> open_kept_costs(const fs::path& file, const machine_identity& machine) {
  std::error_code none;
  if (file.empty() || !fs::exists(file, none)) return std::optional<kept_costs>();
  TROUPE_ASSIGN(const auto text, core::read_file(file, most_kept_bytes));
  TROUPE_ASSIGN(auto kept, read_kept_costs(text, file.string()));
  if (kept.machine != machine)
    return core::refused(fmt::format(
        "{}: wanted constants of {}, {} cores, {}, build {}, got {}, {} cores, {}, build {}; "
        "measure again by troupe calibrate",
        file.string(), machine.processor, machine.cores, core::human_bytes(machine.memory_bytes), machine.build,
        kept.machine.processor, kept.machine.cores, core::human_bytes(kept.machine.memory_bytes), kept.machine.build));
  return std::optional<kept_costs>(std::move(kept));
}

std::string age_text(double seconds) {
  constexpr double minute_s = 60, hour_s = 3600, day_s = 86400;
  const auto text = [&](double unit_s, std::string_view unit) {
    const auto n = static_cast<uint64_t>(std::max(0.0, seconds) / unit_s);
    return fmt::format("{} {}{}", n, unit, n == 1 ? "" : "s");
  };
  if (seconds < minute_s) return text(1, "second");
  if (seconds < hour_s) return text(minute_s, "minute");
  return seconds < day_s ? text(hour_s, "hour") : text(day_s, "day");
}

plan::machine_costs within_a_step(plan::machine_costs alone) {
  using m = plan::machine_costs;
  for (double m::*rate : {&m::product_flops_per_s, &m::attention_flops_per_s, &m::attention_backward_flops_per_s,
                          &m::elementwise_bytes_per_s, &m::activation_bytes_per_s, &m::loss_bytes_per_s})
    alone.*rate /= in_step_factor;
  return alone;
}

std::optional<model_of_kept> model_by(const kept_costs& kept, core::dtype type, const plan::cost_model& usual,
                                      const fs::path& swap_folder, double now_s) {
  const auto* const found = kept.find(type);
  if (found == nullptr) return std::nullopt;
  model_of_kept out{plan::measured_model(within_a_step(found->median), usual), false, {}, *found};
  if (kept.disk && are_on_one_disk(kept.disk->folder, swap_folder)) {
    out.costs.disk_read_bytes_per_s = kept.disk->read_bytes_per_s;
    out.costs.disk_bytes_per_s = kept.disk->written_bytes_per_s;
    out.knows_disk = true;
  }
  out.source = fmt::format("measured {} ago by troupe calibrate on {} core{}", age_text(now_s - kept.measured_at_s),
                           kept.machine.cores, kept.machine.cores == 1 ? "" : "s");
  return out;
}

}  // namespace troupe::job
