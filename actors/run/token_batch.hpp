// Defines the batches of tokens that a host program computes with in a loop of its own, and the result of their forward
// pass. Plain values.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::actors {

struct token_batch {  ///< samples of a host program; each row is one document
  uint64_t rows = 0;  ///< number of samples, at least 1
  /// Tokens, rows x (sequence + 1), row-major: the first `sequence` of each row are inputs, the last `sequence` the
  /// tokens that they have to find. Every token is one of the vocabulary, also where it does not count.
  std::vector<int64_t> tokens;
  /// rows x sequence, row-major: 0 where an input's loss does not count in the mean. Empty: all count.
  std::vector<uint8_t> counted;
};

struct forward_pass {   ///< the result of a forward pass with the weights of the open step
  uint64_t number = 0;  ///< number by which backward() names the pass; numbers of a session ascend from 1
  double loss = 0;      ///< mean cross-entropy over the tokens that count, in nats
  /// rows x sequence, row-major: logarithm of the probability of the token that follows each input, also where it does
  /// not count.
  std::vector<float> log_probabilities;
};

}  // namespace troupe::actors
