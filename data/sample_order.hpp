// Which sample comes when. Owns the cut into training and validation text and the one global order by
// (seed, epoch); knows nothing of ranks. A position in that order is one integer, all that a
// checkpoint needs to resume.
#pragma once

#include <array>
#include <cstdint>

#include "core/error.hpp"

namespace troupe::data {

/// A keyed shuffle of [0, n) that answers for any index without being written down: a balanced Feistel
/// network over the next power of four, walked until it lands inside (fewer than four rounds of it on
/// average). Source: Black, Rogaway 2002, "Ciphers with arbitrary finite domains", method 3.
class permutation {
 public:
  /// n > 0; the same (n, key) always gives the same shuffle.
  permutation(uint64_t n, uint64_t key);

  /// Where index `i` < n goes. A bijection of [0, n).
  [[nodiscard]] uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int rounds = 8;
  uint64_t n_;
  unsigned half_bits_;
  std::array<uint64_t, rounds> keys_;
};

/// Tokens [begin, end) of a stream.
struct token_range {
  uint64_t begin = 0;
  uint64_t end = 0;
  [[nodiscard]] uint64_t size() const { return end - begin; }

  /// Windows of `sequence` + 1 tokens that overlap by one: the last target is the next window's first input.
  [[nodiscard]] uint64_t samples(uint64_t sequence) const { return size() < 2 ? 0 : (size() - 1) / sequence; }
};

struct token_split {  ///< which tokens train and which validate
  token_range train;
  token_range validation;  ///< the end of the stream, never trained on; empty where no fraction was asked for
};

/// Cuts off the last `validation_fraction` (0 <= f < 1) of the tokens. Refused where a part that was asked for is
/// shorter than one sequence, that is `sequence` + 1 tokens.
core::result<token_split> split_tokens(uint64_t tokens, double validation_fraction, uint64_t sequence);

/// The training samples in their global order, epoch after epoch, each a fresh shuffle.
class sample_order {
 public:
  /// `train` holds at least one sample of `sequence` tokens (split_tokens saw to it).
  sample_order(token_range train, uint64_t sequence, uint64_t seed);

  /// Samples of one epoch.
  [[nodiscard]] uint64_t samples() const { return samples_; }
  /// Input tokens of a sample; it covers one more, its last target.
  [[nodiscard]] uint64_t sequence() const { return sequence_; }
  [[nodiscard]] uint64_t epoch_of(uint64_t position) const { return position / samples_; }

  /// The sample, in [0, samples()), that stands at `position` of the order. Positions never end.
  [[nodiscard]] uint64_t sample_at(uint64_t position) const;
  /// The stream's index of that sample's first token.
  [[nodiscard]] uint64_t first_token_at(uint64_t position) const {
    return train_.begin + sample_at(position) * sequence_;
  }

 private:
  token_range train_;
  uint64_t sequence_;
  uint64_t samples_;
  uint64_t seed_;
};

}  // namespace troupe::data
