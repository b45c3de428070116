// Formats what a simulation found: as text for people, as JSON for programs, as a trace for Perfetto, as a page for a
// browser.
#pragma once

#include <string>
#include <vector>

#include "apps/simulate/simulation.hpp"

namespace troupe::apps {

/// Cells of a table by rows; the first row has the headings.
using text_rows = std::vector<std::vector<std::string>>;

/// Returns the number of ranks, hosts, classes and steps, the seed and the card, without a line end.
std::string simulated_ranks_text(const simulation& s);
/// Returns the simulated step, beside the one that `troupe plan` predicts if it does, without a line end.
std::string step_text(const simulation& s);
/// Returns the MFU and the rate that it is a share of, without a line end.
std::string mfu_text(const simulation& s);

/// Returns a row for each part that takes time, as means over the ranks and of the rank with the most; with faults, the
/// means of the run with them, too.
text_rows parts_rows(const simulation& s);
/// Returns a row for each group of ranks that run collectives together, with their bytes.
text_rows traffic_rows(const simulation& s);
/// Returns a row for each of the busiest links of the network. Requires one.
text_rows link_rows(const simulation& s);
/// Returns the name and the size of the network, without a line end. Requires one.
std::string network_text(const simulation& s);
/// Returns a sentence about the link that needs the longest time for its bytes of a step, without a line end. Requires
/// a network.
std::string bounding_link_text(const simulation& s);
/// Says whether the memory that a plan sets aside fits the card, without a line end. Requires a card.
std::string fit_text(const simulation& s);
/// Returns a row for each owner of memory, and one for all together.
text_rows memory_rows(const simulation& s);
/// Returns when each fault happened, what a user reads, and what the faults cost, as lines. Requires faults.
std::string faults_text(const simulation& s);

/// Returns the step and its parts, the bytes of collectives and the peaks of memory; with faults, when each happened,
/// what a user reads, and what the faults cost.
std::string simulation_as_text(const simulation& s);

/// Returns the same as one JSON object, whose members docs/simulation.md lists.
std::string simulation_as_json(const simulation& s);

/// Returns the steps of the run with all faults, or of the run without, as a trace like that of `troupe train`; faults
/// are instant events.
std::string simulation_as_trace(const simulation& s);

/// Returns the same steps as a page that draws the lanes of the ranks that act, with the tables of the text below them.
/// `of` names the job.
std::string simulation_as_page(const simulation& s, const std::string& of);

}  // namespace troupe::apps
