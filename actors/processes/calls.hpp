// What the process that leads a term asks of the others, what they answer, and both as bytes. Every process has the
// whole session and works out by itself what a call does not say: plans, learning rates, loss scales. Owns the form
// alone; who calls, and what a call does, is the session's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/rank_report.hpp"
#include "core/dtype.hpp"
#include "plan/choose/cost.hpp"
#include "plan/layout/layout.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::actors {

/// First of all in a term: what the plans are made with, and where the states come from.
struct opening_call {
  std::optional<plan::cost_model> costs;  ///< measured by the process that leads; none: the usual ones
  std::string resume;                     ///< a checkpoint's folder; empty: first weights
  std::optional<std::string> tag;
  std::string map;
  std::vector<bool> options;  ///< of load_options, in the order of calls.cpp
};

/// A name that a save in memory has got, or lost where `to` is empty.
struct kept_name {
  std::string from, to;
};

/// Run a plan once.
struct run_call {
  uint64_t run = 0, step = 0;
  plan::plan_choice which = plan::plan_choice::train;
  // As run_wish.
  uint32_t micros = 0;
  bool keeps_logits = false, computes_loss = true;
  std::string output;
  uint64_t rows = 0, columns = 0;  ///< of a batch that is given; 0: none is
  std::vector<int64_t> tokens;
  // Of plans that save.
  bool saves_in_memory = false;
  std::string invitation, request;  ///< as part_result.hpp has them
};

/// Read states of a rank, by elements of its own table.
struct read_call {
  uint32_t rank = 0, parameter = 0;
  plan::state_part part = plan::state_part::master;
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
};
/// Write them.
struct write_call {
  read_call where;
  std::string bytes;
};
/// Names of saves in memory have changed; no answer.
struct names_call {
  std::vector<kept_name> names;
};

using peer_call = std::variant<opening_call, run_call, read_call, write_call, names_call>;

/// Of a run: the reports of a process's ranks, and the most bytes of activations that each has had.
struct run_answer {
  rank_reports reports;  ///< without their plans
  std::vector<uint64_t> peak_bytes;
  uint32_t machine = 0;
  uint64_t entered_bytes = 0;  ///< from other machines, since its term began
  std::optional<telemetry::clock_shift> clock{};  ///< from this process's clock to the supervisor's
};

std::string encode(const peer_call& call);
core::result<peer_call> decode_call(std::string_view bytes);
std::string encode(const run_answer& answer);
core::result<run_answer> decode_run_answer(std::string_view bytes);

}  // namespace troupe::actors
