// Observes a job of several processes that was started as a user starts it: finds each process by its number in the
// job, reads the recorded steps, and compares runs.
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

/// Maps each step to its loss and gradient norm, which `telemetry.json_lines` writes with enough digits to restore
/// every bit.
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

/// Returns the ids of the processes that run in `folder` and have `variable` in their environment, by the variable's
/// value.
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

/// Returns the ids of the processes of the job that runs in `folder`, by their number in the job.
inline std::map<uint32_t, pid_t> places_in(const std::filesystem::path& folder) {
  std::map<uint32_t, pid_t> out;
  for (const auto& [link, pid] : programs_in(folder, "TROUPE_LINK"))
    out[static_cast<uint32_t>(std::stoul(link.substr(link.find(':') + 1)))] = pid;
  return out;
}

/// Summary of the terms at the end of a run's output.
struct told_terms {
  std::string degrees;  ///< degrees of the terms, in the format of the option --degrees
  std::string line;
};
/// Returns the summary of the terms in a run's output; nothing if the job had only one process.
std::optional<told_terms> terms_told(const std::string& out);

/// Returns a text with the first difference between two runs; nothing if they are equal.
std::optional<std::string> first_difference(const recorded_steps& wanted, const recorded_steps& got);

}  // namespace troupe::tests
