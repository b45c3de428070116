#include "cluster/seating.hpp"

#include <algorithm>

namespace troupe::cluster {
namespace {

std::vector<uint32_t> places_with_ranks(const seating_facts& facts, uint32_t data) {
  const auto& job = facts.job;
  auto out = facts.idle;
  std::ranges::stable_sort(out, {}, [&](uint32_t p) {
    return p == facts.last_leader ? 0 : facts.rests(job.machine_of(p)) ? 3 : facts.had_ranks(p) ? 1 : 2;
  });
  const uint32_t ranks = data * job.replica_ranks;
  out.resize(std::min<size_t>(out.size(), (ranks + job.ranks_each - 1) / job.ranks_each));
  if (out.empty()) return out;
  const uint32_t first = job.machine_of(out.front());
  std::ranges::stable_sort(out, {}, [&](uint32_t p) {
    const uint32_t machine = job.machine_of(p);
    return machine == first ? 0 : machine + 1;
  });
  return out;
}

/// Returns processes that must take part in the term without ranks, because the machines of `places`, the processes
/// with ranks, lack some files of the newest save that all idle processes together have. Empty if they lack no file, or
/// if some file is only on machines that were replaced.
std::vector<uint32_t> keepers_for(const seating_facts& facts, const std::vector<uint32_t>& places) {
  const auto& job = facts.job;
  auto machines = machines_of(job, places);
  std::vector<uint32_t> all = places, out;
  all.insert(all.end(), facts.idle.begin(), facts.idle.end());
  const std::string folder = facts.kept.newest(machines_of(job, all));
  if (folder == facts.kept.newest(machines)) return out;
  for (const auto& [path, f] : facts.kept.of(folder)) {
    const auto lies_on = [&](uint32_t machine) { return std::ranges::find(f->machines, machine) != f->machines.end(); };
    if (std::ranges::any_of(machines, lies_on)) continue;
    const auto keeps = [&](uint32_t p) { return !facts.rests(job.machine_of(p)) && lies_on(job.machine_of(p)); };
    const auto keeper = std::ranges::find_if(all, keeps);
    if (keeper == all.end()) return {};
    out.push_back(*keeper);
    machines.push_back(job.machine_of(*keeper));
  }
  return out;
}

}  // namespace

std::vector<uint32_t> seating::all() const {
  auto out = places;
  out.insert(out.end(), keepers.begin(), keepers.end());
  return out;
}

seating seat_places(const seating_facts& facts, uint32_t data) {
  seating out{places_with_ranks(facts, data), {}};
  out.keepers = keepers_for(facts, out.places);
  return out;
}

bool has_newest_save(const seating_facts& facts, const seating& s) {
  return facts.kept.newest(machines_of(facts.job, s.all())) == facts.kept.newest(machines_of(facts.job, facts.idle));
}

std::vector<uint32_t> machines_of(const supervised_job& job, const std::vector<uint32_t>& places) {
  std::vector<uint32_t> out;
  for (const uint32_t p : places)
    if (std::ranges::find(out, job.machine_of(p)) == out.end()) out.push_back(job.machine_of(p));
  return out;
}

}  // namespace troupe::cluster
