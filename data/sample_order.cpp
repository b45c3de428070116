// Implements the shuffle of samples, and the split into training and validation tokens.
#include "data/sample_order.hpp"

#include <fmt/format.h>

#include <bit>
#include <cassert>
#include <cmath>

#include "core/math.hpp"

namespace troupe::data {

permutation::permutation(uint64_t n, uint64_t key) : n_(n) {
  assert(n > 0);
  const auto bits = static_cast<unsigned>(std::bit_width(n - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
  for (auto& k : keys_) k = key = core::mix64(key);
}

uint64_t permutation::operator()(uint64_t i) const {
  assert(i < n_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (const uint64_t k : keys_) {
      const uint64_t mixed = left ^ (core::mix64(right ^ k) & mask);
      left = right;
      right = mixed;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

core::result<token_split> split_tokens(uint64_t tokens, double validation_fraction, uint64_t sequence) {
  if (!(validation_fraction >= 0 && validation_fraction < 1))
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("the fraction of text for validation must be at least 0 and below 1, got {}", validation_fraction));
  if (sequence == 0) return core::fail(core::error_kind::bad_input, "a sequence must have at least 1 token, got 0");
  const auto held_out = static_cast<uint64_t>(std::floor(static_cast<double>(tokens) * validation_fraction));
  const uint64_t cut = tokens - held_out;
  const token_split split{{0, cut}, {cut, tokens}};
  const auto too_short = [&](const char* part, const token_range& range) {
    return core::fail(
        core::error_kind::bad_input,
        fmt::format(
            "the {} text has {} tokens, shorter than one sequence, which takes {} and one more as the last target",
            part, range.size(), sequence));
  };
  if (split.train.samples(sequence) == 0) return too_short("training", split.train);
  if (validation_fraction > 0 && split.validation.samples(sequence) == 0)
    return too_short("validation", split.validation);
  return split;
}

sample_order::sample_order(token_range train, uint64_t sequence, uint64_t seed, sample_shuffle shuffle)
    : train_(train), sequence_(sequence), samples_(train.samples(sequence)), seed_(seed), shuffle_(shuffle) {
  assert(samples_ > 0);
}

uint64_t sample_order::sample_at(uint64_t position) const {
  if (shuffle_ == sample_shuffle::none) return position % samples_;
  const permutation shuffle(samples_, core::mix64(seed_) ^ core::mix64(~epoch_of(position)));
  return shuffle(position % samples_);
}

}  // namespace troupe::data
