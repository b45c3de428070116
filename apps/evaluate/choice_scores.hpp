// Counts right answers to multiple-choice questions from the log-probabilities of the choices, as lm_eval counts them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/evaluate/choice_file.hpp"

namespace troupe::apps {

/// Returns the index of the largest number, the first one of equal numbers; NaN is never the largest unless all are.
uint64_t most_probable(std::span<const double> scores);

struct choice_counts {
  uint64_t questions = 0;
  uint64_t right = 0;           ///< questions whose right choice has the largest log-probability
  uint64_t right_by_bytes = 0;  ///< the same for log-probabilities divided by the bytes of the choice

  [[nodiscard]] double accuracy() const { return static_cast<double>(right) / static_cast<double>(questions); }
  [[nodiscard]] double accuracy_by_bytes() const {
    return static_cast<double>(right_by_bytes) / static_cast<double>(questions);
  }
};

/// Returns the standard error of a share `share` of `count` questions: the root of share (1 - share) / (count - 1); 0
/// for one question.
double standard_error(double share, uint64_t count);

/// Counts the questions that the log-probabilities `of` answer right: of[question][choice] is the sum over the tokens
/// of the continuation.
choice_counts count_right(std::span<const choice_question> questions, std::span<const std::vector<double>> of);

}  // namespace troupe::apps
