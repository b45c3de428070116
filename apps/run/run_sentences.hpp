// What `troupe train` says before its first step and after its last. Owns the sentences; steps are progress.hpp's.
#pragma once

#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/checkpoint_start.hpp"
#include "apps/base/progress.hpp"
#include "apps/run/train.hpp"

namespace troupe::apps {

/// The form in which a run shows its steps on this terminal.
output_style style_of(const train_arguments& a);

/// A line about how the model is laid over the ranks and what that takes of one rank.
std::string size_line(const actors::session& s);

/// Prints the lines before the first step, which may take long.
void announce(const actors::session& s, const config::job_config& c, const run_start& start, output_style style);

/// Prints the last lines of a run that came to its end.
void say_end(const end_summary& e, const train_arguments& a, const char* unit);

/// A sentence about the terms of a job of several processes, once it is over. `took_over`: the process that counted the
/// steps that were done again is lost, and the supervisor knows only those that were saved in memory.
std::string recovery_sentence(const actors::recovery_counts& r, uint64_t steps, const config::parallel_section& p,
                              bool took_over);

/// A sentence about the bytes that entered each host; empty where the job's last term had one.
std::string network_sentence(const actors::network_count& n, const std::vector<config::cluster_host>& hosts);

}  // namespace troupe::apps
