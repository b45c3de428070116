// `troupe doctor --cluster FILE`: whether the hosts of a job fit together. Owns the options, who is waited for and in
// which order is asked; what hosts answer is host_examiner.hpp's, what that means apps/machine/cluster_findings.hpp's.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"

namespace troupe::apps {

struct doctor_arguments {
  std::string file;              ///< of the job
  std::vector<std::string> set;  ///< over it
  uint32_t wait_s = 30;          ///< for agents
  output_form form = output_form::text;
};

/// Returns `--cluster`, which the others need.
CLI::Option* add_doctor_options(CLI::App& command, doctor_arguments& a);

/// Waits for the agents of the job's hosts, examines hosts and network, prints, and lets the agents wait for the job
/// again. Exit codes: 0; 1, where something is wrong; 2 bad input; 130, 143: ended by a signal.
int cluster_doctor(const doctor_arguments& a, const std::filesystem::path& program);

}  // namespace troupe::apps
