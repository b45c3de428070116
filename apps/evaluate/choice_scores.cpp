#include "apps/evaluate/choice_scores.hpp"

#include <cmath>

namespace troupe::apps {

uint64_t most_probable(std::span<const double> scores) {
  uint64_t best = 0;
  for (uint64_t i = 1; i < scores.size(); ++i)
    if (scores[i] > scores[best] || (std::isnan(scores[best]) && !std::isnan(scores[i]))) best = i;
  return best;
}

double standard_error(double share, uint64_t count) {
  return count < 2 ? 0 : std::sqrt(share * (1 - share) / static_cast<double>(count - 1));
}

choice_counts count_right(std::span<const choice_question> questions, std::span<const std::vector<double>> of) {
  choice_counts out;
  for (size_t q = 0; q < questions.size(); ++q) {
    std::vector<double> by_bytes = of[q];
    for (size_t c = 0; c < by_bytes.size(); ++c) by_bytes[c] /= static_cast<double>(questions[q].choices[c].size());
    ++out.questions;
    out.right += most_probable(of[q]) == questions[q].answer ? 1 : 0;
    out.right_by_bytes += most_probable(by_bytes) == questions[q].answer ? 1 : 0;
  }
  return out;
}

}  // namespace troupe::apps
