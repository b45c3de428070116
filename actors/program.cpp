#include "actors/program.hpp"

#include <algorithm>
#include <array>

#include "actors/step_context.hpp"
#include "plan/stage_place.hpp"

namespace troupe::actors {

namespace {

// Loads are asked for ahead, too.
bool one_at_a_time(plan::lane l) { return !plan::starts_ahead(l) && l != plan::lane::control; }

// The endings that `x` has to be told of. Its lane sees its own. A line starts instructions in order, and in a lane
// that does one at a time the end of one implies the end of all before it. So only the latest ending of each such lane
// counts, and only if no instruction before x had to be told of a later one. `heard`: how far x's line has been told
// by then.
std::vector<uint32_t> to_hear(const plan::rank_plan& p, const std::vector<uint32_t>& position,
                              const plan::instruction& x, std::array<uint32_t, plan::num_lanes>& heard) {
  std::vector<uint32_t> out;
  std::array<uint32_t, plan::num_lanes> latest;
  latest.fill(plan::none);
  for (uint32_t on : x.after) {
    const auto from = static_cast<size_t>(p.instructions[on].lane);
    if (!one_at_a_time(p.instructions[on].lane)) {
      out.push_back(on);
    } else if (p.instructions[on].lane != x.lane && position[on] >= heard[from]) {
      heard[from] = position[on] + 1;
      latest[from] = on;
    }
  }
  for (uint32_t on : latest)
    if (on != plan::none) out.push_back(on);
  return out;
}

}  // namespace

uint32_t num_seats(const plan::job_layout& l, uint32_t pipeline) {
  return plan::num_lanes - 1 + std::max<uint32_t>(1, static_cast<uint32_t>(plan::stages_of(l, pipeline).size()));
}

std::string name_of(seat s) {
  const std::string lane = std::string(plan::name_of(lane_of(s))) + " lane";
  return s < plan::num_lanes ? lane : lane + " of chunk " + std::to_string(s - plan::num_lanes + 1);
}

program::program(std::shared_ptr<const plan::rank_plan> p) : plan(std::move(p)) {
  const auto& all = plan->instructions;
  num_dependencies.assign(all.size(), 0);
  dependents.resize(all.size());
  seats_waiting.resize(all.size());
  line_of.assign(all.size(), 0);
  collectives.resize(plan->num_collectives.size());
  take_seats();
  for (uint32_t l = 0; l < plan::num_lanes; ++l) {
    draw_lines(l);
    for (const auto& line : lines[l]) {
      std::array<uint32_t, plan::num_lanes> heard{};
      for (const uint32_t at : line) {
        const uint32_t id = plan->lanes[l][at];
        for (const uint32_t on : to_hear(*plan, position, all[id], heard)) wait_for(id, on);
      }
    }
  }
  const auto& compute = plan->lanes[static_cast<size_t>(plan::lane::compute)];
  for (size_t i = 1; i < compute.size(); ++i)
    if (seat_of[compute[i - 1]] != seat_of[compute[i]]) wait_for(compute[i], compute[i - 1]);
}

void program::wait_for(uint32_t id, uint32_t on) {
  ++num_dependencies[id];
  dependents[on].push_back(id);
  const seat mine = seat_of[id];
  auto& others = seats_waiting[on];
  if (mine != seat_of[on] && std::ranges::find(others, mine) == others.end()) others.push_back(mine);
}

void program::take_seats() {
  const auto& l = *plan->layout;
  const auto stages = plan::stages_of(l, l.pipeline_at(plan->rank));
  orders.resize(num_seats(l, l.pipeline_at(plan->rank)));
  seat_of.resize(plan->instructions.size());
  position.resize(plan->instructions.size());
  for (const auto& order : plan->lanes)
    for (uint32_t i = 0; i < order.size(); ++i) {
      const auto& x = plan->instructions[order[i]];
      seat s = static_cast<seat>(x.lane);
      if (x.lane == plan::lane::compute) {  // what is of no stage is the first chunk's
        const auto chunk = std::ranges::find(stages, plan::stage_served(l, x)) - stages.begin();
        if (chunk != 0 && chunk != std::ssize(stages)) s = plan::num_lanes - 1 + static_cast<seat>(chunk);
      }
      seat_of[x.id] = s;
      position[x.id] = i;
      orders[s].push_back(i);
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
  }
  for (auto& line : of) {
    if (line.empty()) continue;
    for (const uint32_t at : line) line_of[order[at]] = static_cast<uint32_t>(lines[lane].size());
    lines[lane].push_back(std::move(line));
  }
}

void sequencer::begin(std::shared_ptr<const program> what, seat mine) {
  program_ = std::move(what);
  seat_ = mine;
  num_started_ = window_ = num_ended_ = 0;
  next_.assign(lane_of(seat_) == plan::lane::fabric ? lines().size() : 1, 0);
  under_way_ = next_;
  waiting_.clear();
  for (uint32_t id : program_->plan->lanes[static_cast<size_t>(lane_of(seat_))])
    waiting_.push_back(program_->num_dependencies[id]);
}

void sequencer::ended(uint32_t id) {
  for (uint32_t d : program_->dependents[id])
    if (program_->seat_of[d] == seat_) --waiting_[program_->position[d]];
  if (program_->seat_of[id] != seat_) return;
  ++num_ended_;
  if (next_.size() > 1) --under_way_[program_->line_of[id]];
}

std::optional<uint32_t> sequencer::next() {
  const bool full = num_started_ >= window_;
  if (next_.size() == 1) {  // all that the seat runs
    if (full || num_started_ == order().size() || waiting_[order()[num_started_]] > 0) return std::nullopt;
    return id_at(order()[num_started_++]);
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
  return id_at(first);
}

}  // namespace troupe::actors
