#include "actors/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "actors/step_context.hpp"
#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"

namespace troupe::actors {

uint32_t num_seats(const plan::rank_plan& p) {
  const auto chunks = plan::stages_of(*p.layout, p.options().mesh.pipeline_at(p.rank)).size();
  return plan::num_lanes + static_cast<uint32_t>(std::max<size_t>(chunks, 1)) - 1;
}

namespace {

// True if the lane runs one instruction at a time: all lanes but fabric, io and control, which starts loads ahead.
bool one_at_a_time(plan::lane l) { return !plan::starts_ahead(l) && l != plan::lane::control; }

// Returns those dependencies of `x` whose ends must be reported to the lane of `x` before `x` starts. A dependency on
// the same lane needs no report if the lane runs one instruction at a time. On another such lane the end of an
// instruction implies the end of all before it, so only the latest dependency on that lane is returned, and only if no
// earlier instruction in the line of `x` has required a report of it or of a later one. `required` [lane]: position up
// to which the line has required reports.
std::vector<uint32_t> reports_for(const plan::rank_plan& p, const std::vector<uint32_t>& position,
                                  const plan::instruction& x, std::array<uint32_t, plan::num_lanes>& required) {
  std::vector<uint32_t> out;
  std::array<uint32_t, plan::num_lanes> latest;
  latest.fill(plan::none);
  for (uint32_t on : x.after) {
    const auto from = static_cast<size_t>(p.instructions[on].lane);
    if (!one_at_a_time(p.instructions[on].lane)) {
      out.push_back(on);
    } else if (p.instructions[on].lane != x.lane && position[on] >= required[from]) {
      required[from] = position[on] + 1;
      latest[from] = on;
    }
  }
  for (uint32_t on : latest)
    if (on != plan::none) out.push_back(on);
  return out;
}

/// Returns the name of a collective in error messages, which must be equal on all members of its communicator. A send
/// and its receive are instructions with different descriptions, so both are named after their communicator and
/// micro-batch.
std::string name_of(const plan::rank_plan& p, const plan::instruction& x) {
  if (!plan::is_transfer(x.kind)) return p.describe(x.id);
  return fmt::format("{}, micro {}", p.layout->communicators[x.communicator].name, x.micro);
}

}  // namespace

program::program(std::shared_ptr<const plan::rank_plan> p) : plan(std::move(p)) {
  const auto& all = plan->instructions;
  num_dependencies.resize(all.size());
  position.resize(all.size());
  dependents.resize(all.size());
  told.resize(all.size());
  line_of.assign(all.size(), 0);
  collectives.resize(plan->num_collectives.size());
  names.resize(collectives.size());
  for (const auto& order : plan->lanes)
    for (uint32_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  take_seats();
  for (uint32_t l = 0; l < plan::num_lanes; ++l) {
    draw_lines(l);
    for (const auto& line : lines[l]) {
      std::array<uint32_t, plan::num_lanes> required{};
      uint32_t before = plan::none;  // id of the previous instruction in the same line
      for (const uint32_t at : line) {
        const uint32_t id = plan->lanes[l][at];
        auto on_these = reports_for(*plan, position, all[id], required);
        // The pipeline stages of a rank run one at a time. If the previous instruction of the compute lane belongs to
        // another stage, its end is reported to the stage of this instruction, which thereby needs no report of
        // instructions that the earlier stage has waited for.
        if (before != plan::none && seat[before] != seat[id]) on_these.push_back(before);
        before = id;
        num_dependencies[id] = static_cast<uint32_t>(on_these.size());
        for (uint32_t on : on_these) {
          dependents[on].push_back(id);
          auto& who = told[on];
          if (seat[on] != seat[id] && std::ranges::find(who, seat[id]) == who.end()) who.push_back(seat[id]);
        }
      }
    }
  }
  for (const auto& who : told) tells.push_back(!who.empty());
}

void program::take_seats() {
  const auto stages = plan::stages_of(*plan->layout, plan->options().mesh.pipeline_at(plan->rank));
  seat.resize(plan->instructions.size());
  place.resize(plan->instructions.size());
  orders.resize(num_seats(*plan));
  for (uint32_t l = 0; l < plan::num_lanes; ++l)
    for (const uint32_t id : plan->lanes[l]) {
      seat[id] = l;
      if (static_cast<plan::lane>(l) == plan::lane::compute) {
        const auto own = std::ranges::find(stages, plan::stage_served(*plan->layout, plan->instructions[id]));
        const auto chunk = own == stages.end() ? 0 : own - stages.begin();
        seat[id] = seat_of(plan::lane::compute, static_cast<uint32_t>(chunk));
      }
      place[id] = static_cast<uint32_t>(orders[seat[id]].size());
      orders[seat[id]].push_back(id);
    }
}

void program::draw_lines(uint32_t lane) {
  const auto& order = plan->lanes[lane];
  if (static_cast<plan::lane>(lane) != plan::lane::fabric) {
    lines[lane].resize(1);
    for (uint32_t i = 0; i < order.size(); ++i) lines[lane][0].push_back(i);
    return;
  }
  std::vector<std::vector<uint32_t>> of(collectives.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    const auto& x = plan->instructions[order[i]];
    of[x.communicator].push_back(i);
    collectives[x.communicator].push_back(x.id);
    names[x.communicator].push_back(name_of(*plan, x));
  }
  for (auto& line : of) {
    if (line.empty()) continue;
    for (const uint32_t at : line) line_of[order[at]] = static_cast<uint32_t>(lines[lane].size());
    lines[lane].push_back(std::move(line));
  }
}

void sequencer::begin(std::shared_ptr<const program> what, plan::lane mine, uint32_t chunk) {
  program_ = std::move(what);
  lane_ = mine;
  seat_ = seat_of(mine, chunk);
  num_started_ = window_ = num_ended_ = 0;
  next_.assign(lines().size(), 0);
  under_way_ = next_;
  waiting_.clear();
  for (uint32_t id : order()) waiting_.push_back(program_->num_dependencies[id]);
}

void sequencer::ended(uint32_t id) {
  for (uint32_t d : program_->dependents[id])
    if (program_->seat[d] == seat_) --waiting_[program_->place[d]];
  if (program_->seat[id] != seat_) return;
  ++num_ended_;
  if (next_.size() > 1) --under_way_[program_->line_of[id]];
}

std::optional<uint32_t> sequencer::next() {
  const bool full = num_started_ >= window_;
  if (next_.size() == 1) {  // the lane has one line
    if (full || num_started_ == waiting_.size() || waiting_[num_started_] > 0) return std::nullopt;
    return order()[num_started_++];
  }
  uint32_t line = plan::none, first = plan::none;
  for (uint32_t k = 0; k < next_.size(); ++k) {
    if (next_[k] == lines()[k].size() || (full && under_way_[k] > 0)) continue;
    const uint32_t at = lines()[k][next_[k]];
    if (waiting_[at] == 0 && at < first) line = k, first = at;
  }
  if (line == plan::none) return std::nullopt;
  ++next_[line];
  ++under_way_[line];
  ++num_started_;
  return order()[first];
}

}  // namespace troupe::actors
