// What must hold in every run of a job of several simulated processes, looked at whenever something of it changes.
// Owns the first violation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
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
      if (l->alive && l->term != 0 && l->term != who.term)
        fail("process " + std::to_string(who.place) + " begins term " + std::to_string(who.term) + " while process " +
             std::to_string(l->place) + " is in term " + std::to_string(l->term));
  }
  /// A rank arrives at a collective of a term.
  void meets(uint64_t term, const life& who) {
    if (who.term != term || !who.has_a_run)
      fail("process " + std::to_string(who.place) + ", in term " + std::to_string(who.term) +
           ", takes part in a collective of term " + std::to_string(term));
    for (const auto& l : lives_)
      if (l->alive && l->has_a_run && l->term != term)
        fail("ranks of terms " + std::to_string(term) + " and " + std::to_string(l->term) + " are at work");
  }
  /// Who leads a term continues at this step.
  void continues_at(uint64_t step) {
    if (step > done_ || (!may_lose_words_ && step + steps_again_max < done_))
      fail("a term continues at step " + std::to_string(step) + " where " + std::to_string(done_) + " were done");
    again_ += done_ - std::min(done_, step);
    at_ = step;
    ++terms_;
  }
  void has_done(uint64_t step) {
    if (step != at_ + 1) fail("step " + std::to_string(step) + " follows step " + std::to_string(at_));
    at_ = step;
    done_ = std::max(done_, step);
  }
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] uint64_t steps_done() const { return done_; }
  [[nodiscard]] uint64_t steps_again() const { return again_; }
  [[nodiscard]] uint64_t terms() const { return terms_; }

 private:
  bool may_lose_words_;
  std::vector<shared_life> lives_;
  std::string wrong_;
  uint64_t done_ = 0, at_ = 0, again_ = 0, terms_ = 0;
};

}  // namespace troupe::actors
