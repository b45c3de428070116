// Completes the three batch sizes of a step (global batch, micro-batch, accumulation steps): derives the missing ones
// from the given ones, exactly like DeepSpeed.
#include <fmt/format.h>

#include "config/rules/resolve.hpp"

namespace troupe::config {

tl::expected<batch_sizes, std::string> complete(batch_sizes given, uint64_t data_ranks) {
  batch_sizes b = given;
  const auto refuse = [&](std::string_view why) {
    const auto text = [](uint64_t n) { return n == 0 ? std::string("none") : fmt::to_string(n); };
    return tl::unexpected<std::string>(
        fmt::format("wanted train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x {} "
                    "data-parallel ranks, got {}, {} and {}: {}",
                    data_ranks, text(given.train), text(given.micro), text(given.accumulation), why));
  };
  const auto product = [&](uint64_t micro, uint64_t accumulation) -> uint64_t {
    uint64_t out = 0;
    if (__builtin_mul_overflow(micro, accumulation, &out) || __builtin_mul_overflow(out, data_ranks, &out)) return 0;
    return out;
  };
  if (b.train == 0 && b.micro == 0) return refuse("give train_batch_size or train_micro_batch_size_per_gpu");
  if (b.train == 0) {
    if (b.accumulation == 0) b.accumulation = 1;
    b.train = product(b.micro, b.accumulation);
    if (b.train == 0) return refuse("the product does not fit 64 bits");
  } else if (b.micro == 0) {
    if (b.accumulation == 0) b.accumulation = 1;
    b.micro = b.train / data_ranks / b.accumulation;
  } else if (b.accumulation == 0) {
    b.accumulation = b.train / b.micro / data_ranks;
  }
  if (b.micro == 0 || b.accumulation == 0 || product(b.micro, b.accumulation) != b.train)
    return refuse("they do not fit");
  return b;
}

}  // namespace troupe::config
