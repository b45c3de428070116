#include "actors/run/run_term.hpp"

#include <utility>

namespace troupe::actors {

run_term::run_term(training_run& run, job::blueprint made) : plan(std::move(made)), pruner(run, plan.compression) {
  const bool on_host = plan.config->device == core::device_kind::cpu;
  memory.ledger =
      std::make_unique<allocation_ledger>(plan.train.ranks(), on_host ? counted_memory::host : counted_memory::device);
}

void run_term::use_programs(plan::plan_choice which, plan::rank_plans plans) {
  for (uint32_t r = 0; r < plans.size(); ++r) {
    if (programs_.size() <= r) programs_.push_back(std::make_shared<rank_programs>());
    (*programs_[r])[static_cast<size_t>(which)] = std::make_shared<const program>(plans[r]);
  }
}

// Writes the plans of a kind other than training at their first use, because most runs never save or generate. Their
// sizes were proved when the session was opened, so no plan can be refused here.
core::result<void> run_term::want(plan::plan_choice which) {
  if (program_of(which, 0) != nullptr) return {};
  TROUPE_ASSIGN(const auto written, plan.write(which));
  TROUPE_ASSIGN(const auto all, written.all());
  use_programs(which, all);
  return {};
}

void run_term::drop_programs() {
  for (const auto& rank : programs_) *rank = {};
}

void run_term::drop_programs(plan::plan_choice which) {
  for (const auto& rank : programs_) (*rank)[static_cast<size_t>(which)] = nullptr;
}

core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> run_term::saving_plans() {
  for (const auto& m : memory.here) TROUPE_TRY(m->take_staging());
  TROUPE_TRY(want(plan::plan_choice::save));
  std::vector<std::shared_ptr<const plan::rank_plan>> out;
  for (uint32_t r = 0; r < ranks(); ++r) out.push_back(program_of(plan::plan_choice::save, r)->plan);
  return out;
}

void run_term::release() {
  memory = {};
  programs_.clear();
}

}  // namespace troupe::actors
