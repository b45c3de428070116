// Owns the file in which `troupe calibrate` keeps what it measured of this machine: its name in the user's cache
// folder, its text, and whether it is of this machine and program. Measures nothing (actors/rates/).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::job {

/// The machine and program for which measured constants are valid.
struct machine_identity {
  std::string processor;  ///< model name of the processor
  uint32_t cores = 0;     ///< number of cores that the process may use
  uint64_t memory_bytes = 0;
  std::string build;  ///< version of the program and of its LibTorch
  bool operator==(const machine_identity&) const = default;
};

/// Returns the identity of the machine whose kernel's facts are below `root`. The cores are those of the calling
/// thread.
machine_identity this_machine(std::string build, const std::filesystem::path& root = "/");

/// The constants for one type of parameters: medians, and the ends of the middle half of the repeated measurements.
struct costs_of_type {
  core::dtype type = core::dtype::f32;
  plan::machine_costs median, lower, upper;
  bool operator==(const costs_of_type&) const = default;
};

/// Rates of the disk of a swap folder.
struct disk_costs {
  std::string folder;
  double read_bytes_per_s = 0, written_bytes_per_s = 0;
  bool operator==(const disk_costs&) const = default;
};

/// The content of the file.
struct kept_costs {
  machine_identity machine;
  double measured_at_s = 0;    ///< seconds since 1970
  double share_of_others = 0;  ///< of all cores' time, used by other programs during the measurement
  std::vector<costs_of_type> types;
  std::optional<disk_costs> disk;
  bool operator==(const kept_costs&) const = default;

  /// Returns the constants for a type of parameters; null if that type was not measured.
  [[nodiscard]] const costs_of_type* find(core::dtype type) const;
};

/// Largest share of all cores' time that other programs may use during a measurement that is kept.
inline constexpr double most_share_of_others = 0.1;

/// Returns the file for a machine: NAME.yaml in the folder `troupe` of the user's cache, $XDG_CACHE_HOME or ~/.cache.
/// Empty if the environment names no such folder by an absolute path.
std::filesystem::path kept_costs_file(const machine_identity& machine);

/// Returns the file's text.
std::string text_of(const kept_costs& costs);

/// Reads a file's text; `file` is for errors. Refused, with the line: a key that is unknown or missing, a value out of
/// range.
core::result<kept_costs> read_kept_costs(std::string_view text, const std::string& file);

/// Returns the costs in a file if it is of this machine; nullopt if there is no such file. Errors: the file cannot be
/// read, or is of another machine or build.
core::result<std::optional<kept_costs>> open_kept_costs(const std::filesystem::path& file,
                                                        const machine_identity& machine);

/// Factor by which computing takes longer within a step than alone: what the terms do not list, such as caches that
/// other instructions have filled. Source: the thirteen jobs of `make foresight` on a Zen 5 with AVX-512, which were
/// predicted 3 to 6 % too short without it.
inline constexpr double in_step_factor = 1.04;

/// Returns the constants with the rates that computing has within a step.
plan::machine_costs within_a_step(plan::machine_costs alone);

/// A cost model by kept constants.
struct model_of_kept {
  plan::cost_model costs;
  bool knows_disk = false;  ///< true: `costs` has measured rates of the swap folder's disk
  std::string source;       ///< where the rates come from, as "measured 2 hours ago by troupe calibrate on 2 cores"
  /// The constants with the spread of their measurements; nullopt: `costs` has usual rates.
  std::optional<costs_of_type> spread = std::nullopt;
};

/// Returns the cost model of a job on the CPU with parameters of this type; nullopt: this type was not measured.
/// `usual`: the model whose other rates stay, those of the disk unless `swap_folder`, which need not exist yet, is on
/// the disk that was measured; `now_s`: seconds since 1970.
std::optional<model_of_kept> model_by(const kept_costs& kept, core::dtype type, const plan::cost_model& usual,
                                      const std::filesystem::path& swap_folder, double now_s);

/// Returns an age as "12 seconds", "3 hours" or "20 days".
std::string age_text(double seconds);

}  // namespace troupe::job
