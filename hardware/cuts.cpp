#include "hardware/cuts.hpp"

namespace troupe::hardware {
namespace {

constexpr uint32_t last_stage_of_zero = 3;

std::vector<uint64_t> divisors_of(uint64_t n) {
  std::vector<uint64_t> low, high;
  for (uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.insert(high.begin(), n / d);
  }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

/// Adds the cuts of these degrees: all micro-batches, chunks, stages of ZeRO, with and without recomputation.
void add_cuts(const cut_space& of, cut with, std::vector<cut>& out) {
  for (const uint64_t micro_batch : divisors_of(of.global_batch / with.data)) {
    with.micro_batch = micro_batch;
    with.micro_batches = of.global_batch / with.data / micro_batch;
    for (with.chunks = 1; with.chunks <= (with.pipeline == 1 ? 1 : most_chunks); ++with.chunks) {
      const bool is_interleaved = with.chunks > 1;
      if (of.layers % (with.pipeline * with.chunks) != 0) continue;
      if (is_interleaved && with.micro_batches % with.pipeline != 0) continue;
      for (with.zero = 0; with.zero <= (with.data == 1 ? 0 : last_stage_of_zero); ++with.zero)
        for (const bool recompute : {false, true}) {
          with.recompute = recompute;
          out.push_back(with);
        }
    }
  }
}

/// Adds the cuts with this degree of context parallelism.
void add_degrees(const cut_space& of, uint64_t context, std::vector<cut>& out) {
  const uint64_t ranks = of.ranks / context;
  for (const uint64_t tensor : divisors_of(ranks)) {
    if (of.heads % tensor != 0 || of.kv_heads % tensor != 0 || of.width % tensor != 0 || of.inner % tensor != 0)
      continue;
    for (const uint64_t pipeline : divisors_of(ranks / tensor)) {
      const uint64_t data = ranks / tensor / pipeline;
      if (of.global_batch % data != 0) continue;
      add_cuts(of, {.tensor = tensor, .pipeline = pipeline, .data = data, .context = context}, out);
    }
  }
}

}  // namespace

std::vector<cut> cuts_of(const cut_space& of) {
  std::vector<cut> out;
  for (const uint64_t context : of.contexts)
    if (context > 0 && of.ranks % context == 0) add_degrees(of, context, out);
  return out;
}

}  // namespace troupe::hardware
