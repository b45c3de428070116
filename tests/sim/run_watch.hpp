// What must hold in every run of a job of several simulated processes, looked at whenever something of it changes.
// Owns the first violation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/term_company.hpp"

namespace troupe::actors {

/// Steps that are done again after a loss at most, if the supervisor hears what processes say: one whose save was not
/// whole, one whose save was told as the process was lost.
inline constexpr uint64_t steps_again_max = 2;

class run_watch {
 public:
  /// `may_lose_words`: what processes say may be lost, or late, with the saves that they told of.
  explicit run_watch(bool may_lose_words) : may_lose_words_(may_lose_words) {}

  void begins(const shared_life& who) {
    lives_.push_back(who);
    std::erase_if(lives_, [](const auto& l) { return !l->alive; });
  }
  /// From now on a process uses the memory of its term.
  void uses_term(const life& who) {
    for (const auto& l : lives_)
      if (l->alive && l->term != 0 && l->term != who.term && !is_out_of_reach(*l, who))
        fail("process " + std::to_string(who.place) + " begins term " + std::to_string(who.term) + " while process " +
             std::to_string(l->place) + " is in term " + std::to_string(l->term));
  }
  /// A rank arrives at a collective of a term.
  void meets(uint64_t term, const life& who) {
    if (who.term != term || !who.has_a_run)
      fail("process " + std::to_string(who.place) + ", in term " + std::to_string(who.term) +
           ", takes part in a collective of term " + std::to_string(term));
    for (const auto& l : lives_)
      if (l->alive && l->has_a_run && l->term != term && !is_out_of_reach(*l, who) && !is_out_of_reach(who, *l))
        fail("ranks of terms " + std::to_string(term) + " and " + std::to_string(l->term) + " are at work");
  }
  /// A process is told that it has a file of the save that its term continues from, or who has it.
  void has_file(uint64_t term, const std::string& path, uint32_t place) { files_.insert({term, path, place}); }
  void wants_file(uint64_t term, const std::string& path, uint32_t place) { wanted_.insert({term, path, place}); }
  /// All processes of the term have been told.
  void has_all_files(uint64_t term) {
    for (const auto& w : wanted_)
      if (std::get<0>(w) == term && !files_.contains(w))
        fail("term " + std::to_string(term) + ": " + std::get<1>(w) + " is said to lie at process " +
             std::to_string(std::get<2>(w)) + ", which has it not");
  }
  /// Who leads a term continues at this step: near the last one, unless all processes that did it have ended. Then their
  /// saves in memory may have gone with them, and the run goes back to what the supervisor has heard of.
  void continues_at(uint64_t step) {
    const bool someone_stayed = std::ranges::any_of(who_did_, [](const auto& l) { return l->alive; });
    if (step > done_ || (!may_lose_words_ && someone_stayed && step + steps_again_max < done_))
      fail("a term continues at step " + std::to_string(step) + " where " + std::to_string(done_) + " were done");
    again_ += done_ - std::min(done_, step);
    at_ = step;
    ++terms_;
  }
  void has_done(uint64_t step) {
    if (step != at_ + 1) fail("step " + std::to_string(step) + " follows step " + std::to_string(at_));
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
  /// Nobody can reap a process of another machine, or one whose agent is gone; it has no memory in common with those of
  /// the next term, and is stopped or gives its ranks up.
  static bool is_out_of_reach(const life& l, const life& from) {
    if (l.cut_off) return true;
    return (l.machine != from.machine || l.orphaned) && (l.told || l.stopped);
  }

  bool may_lose_words_;
  std::vector<shared_life> who_did_;  ///< the last step
  std::set<file_at> files_, wanted_;
  std::vector<shared_life> lives_;
  std::string wrong_;
  uint64_t done_ = 0, at_ = 0, again_ = 0, terms_ = 0;
};

}  // namespace troupe::actors
