#include "cluster/machine_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/silence.hpp"

namespace troupe::cluster {

machine_watch::machine_watch(const supervised_job& job) : job_(job), all_(std::max<size_t>(job.hosts.size(), 1)) {}

std::optional<core::error> machine_watch::join(uint32_t machine, int64_t now_ns) {
  auto& m = all_[machine];
  m = {.is_there = true, .last_contact_ns = now_ns, .times_left_out = m.times_left_out, .lacks = std::move(m.lacks)};
  if (m.times_left_out < times_left_out_max) return std::nullopt;
  return m.lacks.in(fmt::format("it was left out {} times and is not tried again", m.times_left_out));
}

void machine_watch::part(uint32_t machine, bool comes_back) {
  all_[machine].is_there = false;
  if (!comes_back) all_[machine].was_let_go = true;
}

void machine_watch::leave_out(uint32_t machine, core::error why) {
  part(machine, false);
  ++all_[machine].times_left_out;
  all_[machine].lacks = std::move(why);
}

bool machine_watch::hear(uint32_t machine, int64_t now_ns) {
  const bool was_silent = is_silent(machine, now_ns);
  all_[machine].last_contact_ns = now_ns;
  return was_silent;
}

bool machine_watch::is_silent(uint32_t machine, int64_t now_ns) const {
  return machine > 0 && all_[machine].is_there &&
         now_ns - all_[machine].last_contact_ns > machine_silence_ns(job_.lost_after_ns);
}

bool machine_watch::misses_beats(uint32_t machine, int64_t now_ns) const {
  return machine > 0 && now_ns - all_[machine].last_contact_ns > beat_silence_ns(job_.lost_after_ns);
}

std::optional<int64_t> machine_watch::lost_for_ns(uint32_t machine, int64_t now_ns, bool was_away) {
  if (was_away) all_[machine].last_contact_ns = now_ns;
  const int64_t silent_ns = now_ns - all_[machine].last_contact_ns;
  return silent_ns > job_.lost_after_ns ? std::optional(silent_ns) : std::nullopt;
}

std::vector<uint32_t> machine_watch::awaited() const {
  std::vector<uint32_t> out;
  for (uint32_t m = 0; m < all_.size(); ++m)
    if (!all_[m].is_there && !all_[m].was_let_go && !has_only_spares(m) &&
        std::ranges::find(job_.lost, m) == job_.lost.end())
      out.push_back(m);
  return out;
}

bool machine_watch::misses_any(int64_t now_ns) const {
  for (uint32_t m = 1; m < all_.size(); ++m) {
    const bool is_missing = !all_[m].is_there || now_ns - all_[m].last_contact_ns > give_up_ns(job_.lost_after_ns);
    if (is_missing && !all_[m].was_let_go && !has_only_spares(m)) return true;
  }
  return false;
}

std::vector<uint32_t> machine_watch::wake() {
  std::vector<uint32_t> out;
  for (uint32_t m = 0; m < all_.size(); ++m)
    if (std::exchange(all_[m].rests, false)) out.push_back(m);
  return out;
}

bool machine_watch::has_only_spares(uint32_t machine) const {
  for (uint32_t p = 0; p < job_.processes; ++p)
    if (job_.machine_of(p) == machine) return false;
  return true;
}

}  // namespace troupe::cluster
