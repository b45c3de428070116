// Decides which sample of a source is at which position of the training order. Owns the split into training and
// validation text and the one global order by (seed, epoch), which does not depend on ranks. A position in that order
// is one integer, which is all that a checkpoint stores to resume.
#pragma once

#include <array>
#include <cstdint>

#include "core/error.hpp"

namespace troupe::data {

/// A keyed shuffle of [0, n) that is computed for any index without a stored table: a balanced Feistel network over the
/// next power of four, applied until the result is below n (fewer than four times on average). Source: Black, Rogaway
/// 2002, "Ciphers with arbitrary finite domains", method 3.
class permutation {
 public:
  /// Makes a shuffle of [0, n), which must not be empty; equal (n, key) give equal shuffles.
  permutation(uint64_t n, uint64_t key);

  /// Returns the image of index `i` < n under the permutation, which is a bijection of [0, n).
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

  /// Returns the number of windows of `sequence` + 1 tokens that overlap by one: the last target of a window is the
  /// first input of the next.
  [[nodiscard]] uint64_t samples(uint64_t sequence) const { return size() < 2 ? 0 : (size() - 1) / sequence; }
};

struct token_split {  ///< the tokens of a stream for training and for validation
  token_range train;
  token_range validation;  ///< the end of the stream, never trained on; empty if the fraction is 0
};

/// Divides `tokens` tokens into a training part and a validation part, the last `validation_fraction` (0 <= f < 1) of
/// them. Refused: a training part, or a validation part of a fraction above 0, of less than `sequence` + 1 tokens.
core::result<token_split> split_tokens(uint64_t tokens, double validation_fraction, uint64_t sequence);

/// The order of an epoch's samples: one of its own in each epoch, or that of the stream in all epochs.
enum class sample_shuffle : uint8_t { each_epoch, none };

/// The training samples in their global order, epoch after epoch.
class sample_order {
 public:
  /// Makes the order of the samples in `train`, which must hold at least one sample of `sequence` tokens
  /// (split_tokens() checks that).
  sample_order(token_range train, uint64_t sequence, uint64_t seed,
               sample_shuffle shuffle = sample_shuffle::each_epoch);

  /// Returns the number of samples in one epoch.
  [[nodiscard]] uint64_t samples() const { return samples_; }
  /// Returns the number of input tokens of a sample; a sample contains one more token, the target of the last input.
  [[nodiscard]] uint64_t sequence() const { return sequence_; }
  [[nodiscard]] uint64_t epoch_of(uint64_t position) const { return position / samples_; }

  /// Returns the number of the sample, in [0, samples()), at `position` of the training order, which has no end.
  [[nodiscard]] uint64_t sample_at(uint64_t position) const;
  /// Returns the stream index of the first token of the sample at `position`.
  [[nodiscard]] uint64_t first_token_at(uint64_t position) const {
    return train_.begin + sample_at(position) * sequence_;
  }

 private:
  token_range train_;
  uint64_t sequence_;
  uint64_t samples_;
  uint64_t seed_;
  sample_shuffle shuffle_;
};

}  // namespace troupe::data
