// Owns `troupe doctor --cluster FILE`, which checks that the hosts of a job can train together: its options, the wait
// for agents and the order of questions. Leaves the answers to host_examiner.hpp, and their meaning to
// apps/machine/cluster_findings.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"

namespace troupe::apps {

struct doctor_arguments {
  std::string file;              ///< path of the job's configuration file
  std::vector<std::string> set;  ///< overrides of the job's configuration, each as key=value
  uint32_t wait_s = 30;          ///< seconds to wait for agents
  output_form form = output_form::text;
};

/// Adds the options of `troupe doctor --cluster`. Returns the option `--cluster`, which the other ones require.
CLI::Option* add_doctor_options(CLI::App& command, doctor_arguments& a);

/// Waits for the agents of the job's hosts, examines hosts and network, prints the findings, and makes the agents wait
/// for the job again. Exit codes: 0; 1 if something is wrong; 2 bad input; 130, 143: ended by a signal.
int cluster_doctor(const doctor_arguments& a, const std::filesystem::path& program);

}  // namespace troupe::apps
