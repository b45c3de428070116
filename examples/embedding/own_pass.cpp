// A program that adds its own pass over the step plan, which gathers the parameters of a unit one use sooner. The pass
// is ordered by its contract and explained, and its plans are checked before they run; losses do not change.
#include <cstdio>
#include <string>

#include "actors/session/session.hpp"
#include "config/load.hpp"
#include "plan/generate/explain.hpp"
#include "plan/show/render.hpp"

namespace {

using namespace troupe;

int fail(const std::string& why) {
  std::fprintf(stderr, "own_pass: %s\n", why.c_str());
  return 1;
}

// [snippet: pass]
// Moves the gathers of each use to the start of the computation of the previous use. `computes` and `ends` are marks in
// the order of the draft: `computes` follows the gathers of a use, `ends` follows its release.
std::string gather_sooner(plan::draft& d, const plan::rank_plan&) {
  uint32_t moved = 0;
  plan::handle before = plan::none;  // last computation before the use to which gathers are moved
  for (size_t use = 1; use < d.marks.size(); ++use) {
    const auto& last = d.marks[use - 1];
    for (plan::handle x = d.next(last.ends), next; x != d.marks[use].computes; x = next) {
      next = d.next(x);
      if (d.is_mark(x) || d.at(x).kind != plan::kind::gather) continue;
      d.move_before(x, last.computes);
      d.depend_on_nothing(x);
      d.depend(x, before);
      ++moved;
    }
    for (plan::handle x = last.computes; x != last.ends; x = d.next(x))
      if (!d.is_mark(x) && plan::lane_of(d.at(x).kind) == plan::lane::compute) before = x;
  }
  return std::to_string(moved) + " gathers one use sooner";
}

const auto sooner = std::make_shared<const plan::pass>(plan::pass{
    .name = "sooner",
    .promise = {.needs = {plan::fact::gathers_placed}, .provides = {}, .keeps = plan::all_facts},
    .run = gather_sooner});
// [end]

// Returns the losses of the job's first six steps with these passes. After the fourth step, prints the changes that
// each pass has made to the plan.
core::result<std::vector<double>> losses_of(const std::shared_ptr<const config::job_config>& job,
                                            std::vector<actors::scheduled_passes> schedule) {
  auto session = actors::session::open(job);
  if (!session) return core::fail(session.error());
  if (auto ok = (*session)->compile(std::move(schedule)); !ok) return core::fail(ok.error());
  std::vector<double> out;
  for (int step = 0; step < 6; ++step) {
    const auto report = (*session)->step();
    if (!report) return core::fail(report.error());
    out.push_back(report->loss);
    if (step != 3) continue;
    const auto& p = (*session)->training_plan(0);
    const auto explained = plan::explain(p.layout, p.rank);
    if (!explained) return core::fail(explained.error());
    std::printf("%s", plan::accounts_as_table(explained->accounts).c_str());
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("wanted the topology");
  const auto loaded = config::load(argv[1]);
  if (!loaded) return fail(config::render(loaded.error()));
  const auto job = std::make_shared<const config::job_config>(loaded->config);
  const auto plain = losses_of(job, {});
  if (!plain) return fail(plain.error().text);
  // [snippet: schedule]
  // Uses the program's pass from the third step on, and Troupe's pass selective_gather in addition from the fifth.
  const auto changed = losses_of(job, {{.step = 2, .own = {sooner}},
                                       {.step = 4, .passes = {"selective_gather"}, .own = {sooner}}});
  // [end]
  if (!changed) return fail(changed.error().text);
  if (*changed != *plain) return fail("losses differ");
  std::printf("%zu losses, the same with and without the pass\n", plain->size());
  return 0;
}
