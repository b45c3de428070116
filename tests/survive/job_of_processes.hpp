// A job of several processes as a user starts it, and what a test does to them: finds each by its place, signals it,
// reads what the run has recorded, looks for what it has left behind.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/apps/process.hpp"

namespace troupe::tests {

/// Losses and norms by step, as `telemetry.json_lines` has them: doubles as they were printed, which tells all bits.
using recorded_steps = std::map<uint64_t, std::pair<double, double>>;

inline recorded_steps steps_of(const std::filesystem::path& output) {
  recorded_steps out;
  std::ifstream in(output / "steps.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto x = nlohmann::json::parse(line, nullptr, false);
    if (!x.is_object() || !x.contains("step") || !x.contains("grad_norm")) continue;
    out[x["step"]] = {x["loss"].is_number() ? x["loss"].get<double>() : -1,
                      x["grad_norm"].is_number() ? x["grad_norm"].get<double>() : -1};
  }
  return out;
}

/// Programs that run in `folder` with this variable in their environment, by its value.
inline std::map<std::string, pid_t> programs_in(const std::filesystem::path& folder, const std::string& variable) {
  std::map<std::string, pid_t> out;
  std::error_code e;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", e)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto cwd = std::filesystem::read_symlink(entry.path() / "cwd", e);
    if (e || cwd != folder) continue;
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    for (std::string one; std::getline(in, one, '\0');)
      if (one.starts_with(variable + "=")) out[one.substr(variable.size() + 1)] = std::stoi(name);
  }
  return out;
}

/// By place: the processes of the job that runs in `folder`.
inline std::map<uint32_t, pid_t> places_in(const std::filesystem::path& folder) {
  std::map<uint32_t, pid_t> out;
  for (const auto& [link, pid] : programs_in(folder, "TROUPE_LINK"))
    out[static_cast<uint32_t>(std::stoul(link.substr(link.find(':') + 1)))] = pid;
  return out;
}

/// What a run's last line says of its terms.
struct told_terms {
  std::string degrees;  ///< as --degrees takes them
  std::string line;
};
/// Out of all that a run has printed; none where it was not a job of several processes.
std::optional<told_terms> terms_told(const std::string& out);

/// Where two runs differ: nothing, or the first step.
std::optional<std::string> first_difference(const recorded_steps& wanted, const recorded_steps& got);

}  // namespace troupe::tests
