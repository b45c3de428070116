// Checks the invariants of a job of several simulated processes whenever its state changes. Owns the first violation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/terms/term_company.hpp"

namespace troupe::sim {

/// Maximum number of steps that are repeated after a loss if the supervisor receives all messages of the processes: one
/// step whose save was incomplete, and one whose save was reported after the process was lost.
inline constexpr uint64_t steps_again_max = 2;

/// Checks the invariants of one job, and counts its terms and steps.
class run_watch {
 public:
  /// `may_lose_words` is true if messages of processes may be lost or late, and with them the reports of saves.
  /// `again_max` is the maximum number of steps that a loss repeats otherwise.
  explicit run_watch(bool may_lose_words, uint64_t again_max = steps_again_max)
      : may_lose_words_(may_lose_words), again_max_(again_max) {}

  void begins(const shared_life& who) {
    lives_.push_back(who);
    std::erase_if(lives_, [](const auto& l) { return !l->alive; });
  }
  /// Records that a process starts to use the memory of its term (the period with a fixed set of processes). Fails if a
  /// process that shares its memory is still in another term.
  void uses_term(const life& who) {
    for (const auto& l : lives_)
      if (l->alive && l->term != 0 && l->term != who.term && !is_out_of_reach(*l, who))
        fail(fmt::format("process {} begins term {} while process {} is in term {}", who.place, who.term, l->place,
                         l->term));
  }
  /// Records that a rank of `who` arrives at a collective of `term`. Fails if the process has no run of that term, or
  /// if ranks of another term, in reach of this process, have a run.
  void meets(uint64_t term, const life& who) {
    if (who.term != term || !who.has_a_run)
      fail(fmt::format("process {}, in term {}, takes part in a collective of term {}", who.place, who.term, term));
    for (const auto& l : lives_)
      if (l->alive && l->has_a_run && l->term != term && !is_out_of_reach(*l, who) && !is_out_of_reach(who, *l))
        fail(fmt::format("ranks of terms {} and {} are at work", term, l->term));
  }
  /// has_file() records that process `place` has the file `path` of the save from which the term continues;
  /// wants_file() records that another process expects the file there.
  void has_file(uint64_t term, const std::string& path, uint32_t place) { files_.insert({term, path, place}); }
  void wants_file(uint64_t term, const std::string& path, uint32_t place) { wanted_.insert({term, path, place}); }
  /// Checks that every file is at the process where others expect it. Requires that all processes have recorded theirs.
  void has_all_files(uint64_t term) {
    for (const auto& w : wanted_)
      if (std::get<0>(w) == term && !files_.contains(w))
        fail(fmt::format("term {}: {} is said to lie at process {}, which has it not", term, std::get<1>(w),
                         std::get<2>(w)));
  }
  /// Records that the leader of a term continues at `step`. The step must be close to the last completed one, unless
  /// all processes of that step have ended: their saves in memory may be lost with them, and the run resumes from the
  /// newest save that was reported to the supervisor.
  void continues_at(uint64_t step) {
    const bool someone_stayed = std::ranges::any_of(who_did_, [](const auto& l) { return l->alive; });
    if (step > done_ || (!may_lose_words_ && someone_stayed && done_ > again_max_ && step < done_ - again_max_))
      fail(fmt::format("a term continues at step {} where {} were done", step, done_));
    again_ += done_ - std::min(done_, step);
    at_ = step;
    ++terms_;
  }
  void has_done(uint64_t step) {
    if (step != at_ + 1) fail(fmt::format("step {} follows step {}", step, at_));
    at_ = step;
    done_ = std::max(done_, step);
    who_did_ = lives_;
    std::erase_if(who_did_, [](const auto& l) { return !l->alive; });
  }
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] uint64_t steps_done() const { return done_; }
  [[nodiscard]] uint64_t steps_again() const { return again_; }
  [[nodiscard]] uint64_t terms() const { return terms_; }

 private:
  using file_at = std::tuple<uint64_t, std::string, uint32_t>;
  /// Returns true if `l` may still be in an older term, because it shares no memory with the next term's processes: its
  /// agent's connection has ended; or it is stopped or ending its ranks, and no process on `from`'s machine can reap
  /// it.
  static bool is_out_of_reach(const life& l, const life& from) {
    if (l.cut_off) return true;
    return (l.machine != from.machine || l.orphaned) && (l.told || l.stopped);
  }

  bool may_lose_words_;
  uint64_t again_max_;
  std::vector<shared_life> who_did_;  ///< processes that were alive when the last step was completed
  std::set<file_at> files_, wanted_;
  std::vector<shared_life> lives_;
  std::string wrong_;
  uint64_t done_ = 0, at_ = 0, again_ = 0, terms_ = 0;
};

}  // namespace troupe::sim
