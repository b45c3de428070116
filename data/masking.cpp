#include "data/masking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/math.hpp"
#include "core/token_order.hpp"

namespace troupe::data {
namespace {

constexpr double two_to_53 = 0x1p53;
/// Keys of the random numbers of masks, which keep them independent of other uses of a run's seed and of each other.
constexpr uint64_t masks_stream = 0x6D61736B696E6700ULL, kind_stream = 0x6B696E64, token_stream_key = 0x746F6B656EULL;

/// Returns a number in [0, 1) from 64 random bits.
double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) / two_to_53; }

/// Returns the first random number of a sample. The random number of position i is the hash of this number plus i.
uint64_t first_number_of(uint64_t seed, data_part part, uint64_t sample) {
  return core::mix64(core::mix64(seed ^ (masks_stream + static_cast<uint64_t>(part))) ^ core::mix64(sample));
}

core::result<void> check_share(const char* name, double share) {
  if (share >= 0 && share <= 1) return {};
  return core::fail(core::error_kind::bad_input, fmt::format("{}: wanted a number from 0 to 1, got {}", name, share));
}

}  // namespace

core::result<masking> masking::make(masking_options options) {
  TROUPE_TRY(check_share("probability", options.probability));
  TROUPE_TRY(check_share("mask", options.mask));
  TROUPE_TRY(check_share("random", options.random));
  if (options.mask + options.random > 1)
    return core::fail(core::error_kind::bad_input, fmt::format("mask, random: wanted at most 1 together, got {} and {}",
                                                               options.mask, options.random));
  if (options.mask_token >= options.vocabulary)
    return core::fail(core::error_kind::bad_input, fmt::format("mask_token_id: wanted a token below {}, got {}",
                                                               options.vocabulary, options.mask_token));
  options.special.push_back(options.mask_token);
  std::ranges::sort(options.special);
  const auto repeated = std::ranges::unique(options.special);
  options.special.erase(repeated.begin(), repeated.end());
  std::erase_if(options.special, [&](uint32_t t) { return t >= options.vocabulary; });
  if (options.special.size() == options.vocabulary)
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("wanted a token that is not special, got a vocabulary of {} special tokens", options.vocabulary));
  return masking(std::move(options));
}

masking::masking(masking_options options)
    : options_(std::move(options)),
      is_special_(options_.vocabulary, false),
      limit_(static_cast<uint64_t>(options_.probability * two_to_53)) {
  for (const uint32_t t : options_.special) is_special_[t] = true;
}

bool masking::is_special(int64_t token) const {
  return token >= 0 && static_cast<uint64_t>(token) < is_special_.size() && is_special_[static_cast<size_t>(token)];
}

int64_t masking::replacement(uint64_t numbers, int64_t token) const {
  const double kind = uniform(core::mix64(numbers ^ kind_stream));
  if (kind < options_.mask) return options_.mask_token;
  if (kind >= options_.mask + options_.random) return token;
  const uint64_t usual = options_.vocabulary - options_.special.size();
  uint64_t out = ((core::mix64(numbers ^ token_stream_key) >> 32) * usual) >> 32;
  for (const uint32_t s : options_.special) out += out >= s ? 1 : 0;  // ascending, so that each step passes one token
  return static_cast<int64_t>(out);
}

uint64_t masking::apply(data_part part, uint64_t sample, std::span<int64_t> inputs, std::span<int64_t> targets) const {
  const uint64_t first = first_number_of(options_.seed, part, sample);
  uint64_t chosen = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t numbers = core::mix64(first + i);
    targets[i] = core::no_target;
    if ((numbers >> 11) >= limit_ || is_special(inputs[i])) continue;
    targets[i] = inputs[i];
    inputs[i] = replacement(numbers, inputs[i]);
    ++chosen;
  }
  return chosen;
}

uint64_t masking::count(data_part part, uint64_t sample, std::span<const int64_t> inputs) const {
  const uint64_t first = first_number_of(options_.seed, part, sample);
  uint64_t chosen = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((core::mix64(first + i) >> 11) < limit_ && !is_special(inputs[i])) ++chosen;
  return chosen;
}

}  // namespace troupe::data
