#include "actors/program.hpp"

#include <algorithm>

namespace troupe::actors {

program::program(std::shared_ptr<const plan::step_plan> p) : plan(std::move(p)) {
  const auto& all = plan->instructions;
  num_dependencies.resize(all.size());
  position.resize(all.size());
  dependents.resize(all.size());
  lanes_waiting.assign(all.size(), 0);
  of_sequence.resize(plan->num_collectives);
  for (const auto& order : plan->lanes)
    for (uint32_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (const auto& x : all) {
    num_dependencies[x.id] = static_cast<uint32_t>(x.after.size());
    if (x.sequence != plan::none) of_sequence[x.sequence] = x.id;
    for (uint32_t on : x.after) {
      dependents[on].push_back(x.id);
      if (all[on].lane != x.lane) lanes_waiting[on] |= static_cast<uint8_t>(1U << static_cast<unsigned>(x.lane));
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
