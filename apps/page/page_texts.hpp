// The texts that a page serves: the state as JSON for its script, and as Prometheus reads it. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/page/page_state.hpp"
#include "cluster/messages.hpp"

namespace troupe::apps {

/// Ranks with rows of their own; of further ones only how many there are.
inline constexpr size_t page_ranks_max = 64;
/// Spans in one answer; steps before the one with which there would be more are left out.
inline constexpr size_t page_spans_max = 6000;

/// What is asked at the moment of an answer.
struct page_moment {
  std::string phase;  ///< opening, training, evaluating, saving, paused, over
  uint64_t step = 0;
  std::vector<actors::rank_diagnosis> ranks{};
  cluster::roster people{};  ///< the processes of a job that has several
};

/// For the page's script (docs/telemetry.md).
std::string page_json(const page_copy& all, const page_moment& now);
/// Prometheus' text format, version 0.0.4.
std::string page_metrics(const page_copy& all, const page_moment& now);

}  // namespace troupe::apps
