#include "sim/job_faults.hpp"

#include <algorithm>
#include <utility>

#include "sim/answer.hpp"

namespace troupe::sim {
namespace {

void require_job(const core::result<void>& r) {
  if (!r) throw world_error(r.error());
}

[[noreturn]] void refuse_fault(const fault& f, const std::string& why) {
  throw world_error({core::error_kind::bad_input, "fault " + f.describe() + ": " + why});
}

bool is_one_time(fault::effect e) { return e == fault::effect::lose || e == fault::effect::full_disk; }

}  // namespace

job_faults::job_faults(std::vector<fault> faults, simulated_job job, steps_of_job steps,
                       std::optional<fabric::linear_link> between_hosts)
    : faults_(std::move(faults)),
      job_(std::move(job)),
      steps_(steps),
      between_hosts_(between_hosts),
      at_ns_(faults_.size(), history::never) {
  for (const fault& f : faults_) check(f);
}

bool job_faults::is_of_run(const fault& f) {
  return !f.instruction().empty() || f.what() == fault::effect::full_disk ||
         (f.what() == fault::effect::slow && !f.is_lasting());
}

bool job_faults::writes_disk(uint64_t step) const {
  return step > 1 && steps_.disk_every > 0 && (step - 1) % steps_.disk_every == 0;
}

std::vector<plan::plan_choice> job_faults::kinds(bool disk_only) const {
  std::vector<plan::plan_choice> out;
  for (uint64_t step = 1; step <= steps_.all; ++step) {
    const bool in_memory = !disk_only && step > 1 && steps_.memory_every > 0 && (step - 1) % steps_.memory_every == 0;
    out.push_back(in_memory || writes_disk(step) ? plan::plan_choice::train_saving : plan::plan_choice::train);
  }
  return out;
}

void job_faults::check(const fault& f) const {
  if (f.has_instruction_as_moment()) refuse_fault(f, "when() is for worlds of one process; choose a step or a time");
  if (is_of_run(f) && f.time()) refuse_fault(f, "wanted a step, got a time");
  const auto* const at_host = std::get_if<host>(&f.where());
  if (f.what() == fault::effect::kill && at_host != nullptr && at_host->number == 0)
    refuse_fault(f, "the supervisor is on host 0, and the job would end with it");
  const plans_by_choice* const plans = job_.plans(job_.base.data);
  if (plans == nullptr) refuse_fault(f, "the job has no plans for all of its ranks");
  const auto steps = kinds(f.what() == fault::effect::full_disk);
  const stage_of_faults stage{*plans, steps, 0, job_.hosts_of_ranks()};
  if (!f.is_lasting()) {
    const auto found = f.faults_in(stage);
    if (!found) throw world_error(found.error());
    return;
  }
  actors::sim_options options;
  options.links.resize(stage.communicators().size());
  require_job(f.apply_to(options, stage));
}

std::vector<run_fault> job_faults::of_run(const run_of_term& run) {
  std::vector<run_fault> out;
  if (run.plans == nullptr || run.which == plan::plan_choice::save) return out;
  const std::vector<plan::plan_choice> steps{run.which};
  const stage_of_faults stage{*run.plans, steps, 0, run.machines};
  for (size_t i = 0; i < faults_.size(); ++i) {
    const fault& f = faults_[i];
    if (!is_of_run(f) || (f.step() && *f.step() != run.step)) continue;
    if (is_one_time(f.what()) && at_ns_[i] != history::never) continue;
    const bool is_saved_in_memory = run.which == plan::plan_choice::train_saving && !writes_disk(run.step);
    if (f.what() == fault::effect::full_disk && is_saved_in_memory) continue;
    // A term of fewer ranks, or a step of another kind, may lack the rank or the instruction of a fault.
    auto found = f.in_step(1).faults_in(stage);
    if (!found) continue;
    for (auto& x : *found) out.push_back({i, std::move(x)});
  }
  return out;
}

void job_faults::has_happened(size_t number, int64_t at_ns) {
  if (at_ns_[number] == history::never) at_ns_[number] = at_ns;
}

std::vector<size_t> job_faults::due(uint64_t step, int64_t since_ns) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const fault& f = faults_[i];
    if (at_ns_[i] != history::never || f.is_lasting() || is_of_run(f)) continue;
    const bool is_due = f.time() ? since_ns >= f.time()->count() : step >= f.step().value_or(1);
    if (is_due) out.push_back(i);
  }
  return out;
}

int64_t job_faults::due_ns(int64_t since_ns) const {
  int64_t out = INT64_MAX;
  for (const fault& f : faults_)
    if (f.time() && f.time()->count() > since_ns) out = std::min<int64_t>(out, f.time()->count());
  return out;
}

plan::cost_model job_faults::costs(plan::cost_model usual) const {
  const plans_by_choice* const plans = job_.plans(job_.base.data);
  if (plans == nullptr) return usual;
  const auto steps = kinds(false);
  const stage_of_faults stage{*plans, steps, 0, job_.hosts_of_ranks()};
  actors::sim_options options;
  options.costs = usual;
  for (const fault& f : faults_)
    if (f.what() == fault::effect::slow_disk) require_job(f.apply_to(options, stage));
  return options.costs;
}

std::vector<fabric::linear_link> job_faults::links(const plans_by_choice& plans,
                                                   const std::vector<uint32_t>& hosts) const {
  if (!between_hosts_) return {};
  const auto steps = kinds(false);
  const stage_of_faults stage{plans, steps, 0, hosts};
  actors::sim_options options;
  for (const auto& c : stage.communicators()) {
    const auto is_on_first = [&](uint32_t r) { return hosts[r] == hosts[c.members.front()]; };
    options.links.push_back(std::ranges::all_of(c.members, is_on_first) ? fabric::linear_link() : *between_hosts_);
  }
  // No collective of a term with fewer hosts may cross the link of a fault: then the fault changes nothing.
  for (const fault& f : faults_)
    if (f.is_lasting() && f.what() != fault::effect::slow_disk) (void)f.apply_to(options, stage);
  return std::move(options.links);
}

std::vector<strike> job_faults::strikes(int64_t began_ns) const {
  std::vector<strike> out;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const int64_t at_ns = faults_[i].is_lasting() ? began_ns : at_ns_[i];
    out.push_back({faults_[i].describe(), at_ns != history::never, at_ns});
  }
  return out;
}

}  // namespace troupe::sim
