// Formats the texts that a page serves: the state as JSON for its script, and in Prometheus' text format. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "apps/page/page_state.hpp"
#include "cluster/messages.hpp"

namespace troupe::apps {

/// Limit of the ranks with rows of their own; further ranks are only counted.
inline constexpr size_t page_ranks_max = 64;
/// Limit of the spans in one answer; older steps that would exceed it are left out.
inline constexpr size_t page_spans_max = 6000;

/// Facts about a run that are collected for each answer of the page, such as the state of its processes.
struct page_moment {
  std::string phase;  ///< phase of the run: opening, training, evaluating, saving, sampling, paused, over
  uint64_t step = 0;
  std::vector<actors::rank_diagnosis> ranks{};
  cluster::roster people{};  ///< processes of the job; empty if the job has only one
};

/// Returns the run's state as JSON for the script of the status page (docs/telemetry.md).
std::string page_json(const page_copy& all, const page_moment& now);
/// Returns the run's state in Prometheus' text format, version 0.0.4.
std::string page_metrics(const page_copy& all, const page_moment& now);

}  // namespace troupe::apps
