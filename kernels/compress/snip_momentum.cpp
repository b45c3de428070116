#include "kernels/compress/snip_momentum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/number.hpp"
#include "core/text.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::kernels {

core::result<prune_block> prune_block_from(std::string_view text) {
  std::string_view rest = text;
  const auto rows = core::take_number<uint64_t>(rest);
  const auto columns = rest.starts_with('x') ? core::number_of<uint64_t>(rest.substr(1)) : std::nullopt;
  if (!rows || !columns || *rows == 0 || *columns == 0)
    return fail(error_kind::bad_input, "wanted a block such as 4x1 (rows x columns), got '" + core::shown(text) + "'");
  return prune_block{*rows, *columns};
}

core::result<void> check(const pruned_matrix& m) {
  if (m.block.rows == 0 || m.block.columns == 0)
    return fail(error_kind::bad_input, fmt::format("wanted blocks of at least one row and one column, got {} x {}",
                                                   m.block.rows, m.block.columns));
  if (m.rows % m.block.rows == 0 && m.columns % m.block.columns == 0) return {};
  return fail(error_kind::bad_input, fmt::format("blocks of {} x {} do not divide a weight of {} x {}", m.block.rows,
                                                 m.block.columns, m.rows, m.columns));
}

core::result<void> check(const prune_schedule& s) {
  if (!(s.dense_ratio > 0 && s.dense_ratio < 1))
    return fail(error_kind::bad_input, "wanted a dense ratio between 0 and 1, got " + core::number_text(s.dense_ratio));
  if (s.end < s.begin)
    return fail(error_kind::bad_input,
                fmt::format("pruning would end at step {}, before it begins at step {}", s.end, s.begin));
  if (s.stride == 0) return fail(error_kind::bad_input, "wanted a pruning interval of at least 1 step, got 0");
  return {};
}

double prune_schedule::sparsity_at(uint64_t step) const {
  const double target = 1 - dense_ratio;
  if (step < begin) return 0;
  if (step >= end) return target;
  const uint64_t every = std::max<uint64_t>(stride, 1), turn = begin + (step - begin) / every * every;
  const double left = 1 - static_cast<double>(turn - begin) / static_cast<double>(end - begin);
  return target * (1 - left * left * left);
}

bool prune_schedule::is_turn(uint64_t step) const {
  return step == end || (step >= begin && step < end && (step - begin) % std::max<uint64_t>(stride, 1) == 0);
}

core::result<void> add_saliency(std::span<float> scores, std::span<const float> weight,
                                std::span<const float> gradient) {
  if (scores.size() != weight.size() || scores.size() != gradient.size())
    return fail(error_kind::bad_input,
                fmt::format("a weight and a gradient for each of {} scores were wanted, got {} and {}", scores.size(),
                            weight.size(), gradient.size()));
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = snip_momentum * scores[i] + std::fabs(weight[i] * gradient[i]);
  return {};
}

core::result<std::vector<float>> block_scores(const pruned_matrix& m, std::span<const float> scores) {
  TROUPE_TRY(check(m));
  if (scores.size() != m.rows * m.columns)
    return fail(error_kind::bad_input, fmt::format("a score for each of {} x {} elements was wanted, got {}", m.rows,
                                                   m.columns, scores.size()));
  std::vector<float> out;
  for (uint64_t r = 0; r < m.rows; r += m.block.rows)
    for (uint64_t c = 0; c < m.columns; c += m.block.columns) {
      double sum = 0;
      for (uint64_t i = 0; i < m.block.rows; ++i)
        for (uint64_t j = 0; j < m.block.columns; ++j) sum += scores[(r + i) * m.columns + c + j];
      out.push_back(static_cast<float>(sum));
    }
  return out;
}

core::result<void> snip_mask(const pruned_matrix& m, std::span<const float> scores, double sparsity,
                             std::span<uint8_t> keep) {
  TROUPE_ASSIGN(const auto of_blocks, block_scores(m, scores));
  if (keep.size() != scores.size() || !(sparsity >= 0 && sparsity <= 1))
    return fail(error_kind::bad_input,
                fmt::format("a mask of {} elements and a sparsity from 0 to 1 were wanted, got {} and {}",
                            scores.size(), keep.size(), core::number_text(sparsity)));
  const uint64_t blocks = m.blocks();
  const auto pruned = static_cast<uint64_t>(sparsity * static_cast<double>(blocks));
  std::vector<uint8_t> kept(blocks);
  keep_largest(of_blocks, blocks - std::min(blocks, pruned), kept);
  const uint64_t blocks_of_row = m.columns / m.block.columns;
  for (uint64_t r = 0; r < m.rows; ++r)
    for (uint64_t c = 0; c < m.columns; ++c)
      keep[r * m.columns + c] = kept[r / m.block.rows * blocks_of_row + c / m.block.columns];
  return {};
}

}  // namespace troupe::kernels
