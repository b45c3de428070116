// Owns the sentences that `troupe train` prints before its first step and after its last. Leaves steps to progress.hpp.
#pragma once

#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/training/checkpoint_start.hpp"
#include "apps/base/training/progress.hpp"
#include "apps/run/train.hpp"

namespace troupe::apps {

/// Returns how the run displays its progress: as JSON, lines, or a bar on a terminal.
output_style style_of(const train_arguments& a);

/// Returns a line about the division of the model over the ranks, and the memory of one rank.
std::string size_line(const actors::session& s);

/// Prints the lines that describe the run. Called before the first step, which may last long.
void announce(const actors::session& s, const config::job_config& c, const run_start& start, output_style style);

/// Prints the last lines of a run that came to its end; `unit` is the unit of its losses, such as nats/token.
void say_end(const end_summary& e, const train_arguments& a, const char* unit);

/// Returns a sentence about the terms of a job of several processes, after its end. `took_over`: the process that had
/// counted the repeated steps was lost, so that the number of repeated steps is a lower bound.
std::string recovery_sentence(const actors::recovery_counts& r, uint64_t steps, const config::parallel_section& p,
                              bool took_over);

/// Returns a sentence about the bytes that entered each machine; empty if the job's last term had one machine.
std::string network_sentence(const actors::network_count& n, const std::vector<config::cluster_host>& hosts);

}  // namespace troupe::apps
