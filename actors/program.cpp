#include "actors/program.hpp"

#include <algorithm>
#include <array>

#include "actors/step_context.hpp"

namespace troupe::actors {

namespace {

// Loads are asked for ahead, too.
bool one_at_a_time(plan::lane l) { return !plan::starts_ahead(l) && l != plan::lane::control; }

// The endings that `x` has to be told of. Its lane sees its own. A lane starts instructions in order, and in a lane
// that does one at a time the end of one implies the end of all before it. So only the latest ending of each such lane
// counts, and only if no instruction before x had to be told of a later one. `heard`: how far x's lane has been told
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

program::program(std::shared_ptr<const plan::rank_plan> p) : plan(std::move(p)) {
  const auto& all = plan->instructions;
  num_dependencies.resize(all.size());
  position.resize(all.size());
  dependents.resize(all.size());
  lanes_waiting.assign(all.size(), 0);
  of_sequence.resize(plan->num_collectives);
  for (const auto& order : plan->lanes)
    for (uint32_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (const auto& order : plan->lanes) {
    std::array<uint32_t, plan::num_lanes> heard{};
    for (uint32_t id : order) {
      const auto& x = all[id];
      const auto on_these = to_hear(*plan, position, x, heard);
      num_dependencies[id] = static_cast<uint32_t>(on_these.size());
      if (x.sequence != plan::none) of_sequence[x.sequence] = id;
      for (uint32_t on : on_these) {
        dependents[on].push_back(id);
        if (all[on].lane != x.lane) lanes_waiting[on] |= static_cast<uint8_t>(1U << static_cast<unsigned>(x.lane));
      }
    }
  }
}

void sequencer::begin(std::shared_ptr<const program> what, plan::lane mine) {
  program_ = std::move(what);
  lane_ = mine;
  next_ = window_ = num_ended_ = 0;
  waiting_.clear();
  for (uint32_t id : order()) waiting_.push_back(program_->num_dependencies[id]);
}

void sequencer::ended(uint32_t id) {
  for (uint32_t d : program_->dependents[id])
    if (program_->plan->instructions[d].lane == lane_) --waiting_[program_->position[d]];
  if (program_->plan->instructions[id].lane == lane_) ++num_ended_;
}

std::optional<uint32_t> sequencer::next() {
  if (next_ >= std::min(window_, size()) || waiting_[next_] > 0) return std::nullopt;
  return order()[next_++];
}

}  // namespace troupe::actors
