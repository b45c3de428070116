#include "config/sections/elasticity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace troupe::config {
namespace {

/// Numbers with more divisors than any smaller one: such a number of micro-batches can be divided over most rank
/// counts.
constexpr uint64_t highly_composite[] = {1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
                                         180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
                                         10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
                                         166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};

/// Returns the largest highly composite number that is at most `most`, which is at least 1.
uint64_t composite_below(uint64_t most) { return *(std::ranges::upper_bound(highly_composite, most) - 1); }

struct batch_and_counts {
  uint64_t batch = 0;
  std::vector<uint64_t> counts;
};

/// Returns all numbers of ranks from `least` to `most` over which a batch can be divided into whole micro-batches of
/// one of the sizes.
std::vector<uint64_t> counts_of(uint64_t batch, const std::set<uint64_t>& sizes, uint64_t least, uint64_t most) {
  std::set<uint64_t> out;
  const auto add = [&](uint64_t count) {
    if (count >= least && count <= most) out.insert(count);
  };
  for (const uint64_t size : sizes) {
    if (batch % size != 0) continue;
    const uint64_t micro_batches = batch / size;
    for (uint64_t i = 1; i * i <= micro_batches; ++i) {
      if (micro_batches % i != 0) continue;
      add(i);
      add(micro_batches / i);
    }
  }
  return {out.begin(), out.end()};
}

/// Returns the least common multiple of all sizes; 0 if it is above `most`.
uint64_t common_multiple(const std::set<uint64_t>& sizes, uint64_t most) {
  uint64_t out = 1;
  for (const uint64_t size : sizes) {
    out = std::lcm(out, size);  // lcm cannot overflow, because both arguments are at most elastic_batch_max
    if (out > most) return 0;
  }
  return out;
}

/// Returns the batch of at most `most` samples that can be divided equally over the largest number of rank counts;
/// among several the largest (`larger`) or the smallest one. Nullopt: no batch can be divided over any count.
std::optional<batch_and_counts> best_batch(const std::set<uint64_t>& sizes, uint64_t most, uint64_t least_ranks,
                                           uint64_t most_ranks, bool larger) {
  std::set<uint64_t> bases = sizes, candidates;
  if (const uint64_t all = common_multiple(sizes, most); all > 0) bases.insert(all);
  for (const uint64_t base : bases) candidates.insert(base * composite_below(most / base));
  // DeepSpeed starts with the smallest size and no counts, so that a batch without counts may replace it.
  batch_and_counts best{*sizes.begin(), {}};
  bool found = false;
  for (const uint64_t batch : candidates) {
    auto counts = counts_of(batch, sizes, least_ranks, most_ranks);
    const bool preferred = larger ? batch > best.batch : batch < best.batch;
    if (counts.size() < best.counts.size() || (counts.size() == best.counts.size() && !preferred)) continue;
    best = {batch, std::move(counts)};
    found = true;
  }
  return found ? std::optional(std::move(best)) : std::nullopt;
}

bool by_nodes(const elasticity_section& s) { return s.version == 0.2; }

/// Returns the number of data-parallel ranks of one node.
uint64_t data_of_node(const elasticity_section& s) {
  return by_nodes(s) ? s.num_gpus_per_node / s.model_parallel_size : 1;
}

std::set<uint64_t> sizes_of(const elasticity_section& s) {
  return {s.micro_batch_sizes.begin(), s.micro_batch_sizes.end()};
}

tl::unexpected<elastic_problem> refused(const char* name, std::string text) {
  return tl::unexpected(elastic_problem{fmt::format("elasticity.{}", name), std::move(text)});
}

/// Returns the batch for a number of ranks that does not fill an allowed number of nodes. For each micro-batch size,
/// the candidate is the largest multiple of size x data ranks that is at most max_train_batch_size; prefer_larger_batch
/// takes the largest candidate, else the smallest is taken. Floating point as in DeepSpeed, because the ranks may fill
/// a part of a node.
batch_and_counts own_batch(const elasticity_section& s, uint64_t ranks) {
  const double data = double(ranks) / double(s.num_gpus_per_node) * double(data_of_node(s));
  double least = 0, most = 0;
  bool first = true;
  for (const uint64_t size : s.micro_batch_sizes) {
    const double once = double(size) * data;
    const double batch = std::floor(double(s.max_train_batch_size) / once) * once;
    least = first ? batch : std::min(least, batch);
    most = first ? batch : std::max(most, batch);
    first = false;
  }
  return {static_cast<uint64_t>(s.prefer_larger_batch ? most : least), {static_cast<uint64_t>(data)}};
}

/// Returns the rank counts of `counts` next to `wanted` as text, such as "the nearest are 4 and 6".
std::string nearest_of(const std::vector<uint64_t>& counts, uint64_t wanted) {
  const auto above = std::ranges::upper_bound(counts, wanted);
  const bool has_above = above != counts.end(), has_below = above != counts.begin();
  if (has_above && has_below) return fmt::format("the nearest are {} and {}", *(above - 1), *above);
  if (!has_above && !has_below) return "there is none";
  return fmt::format("the nearest is {}", has_above ? *above : *(above - 1));
}

}  // namespace

std::optional<elastic_problem> elastic_problem_of(const elasticity_section& s) {
  const auto wrong = [](const char* name, std::string text) { return refused(name, std::move(text)).value(); };
  if (s.version != 0.1 && s.version != 0.2)
    return wrong("version", fmt::format("wanted 0.1 or 0.2, got {}", s.version));
  if (s.min_gpus > s.max_gpus)
    return wrong("min_gpus", fmt::format("wanted at most elasticity.max_gpus, {}, got {}", s.max_gpus, s.min_gpus));
  if (s.model_parallel_size > 1 && !by_nodes(s))
    return wrong("model_parallel_size", fmt::format("wanted 1 with version 0.1, got {}", s.model_parallel_size));
  if (by_nodes(s) && s.num_gpus_per_node % s.model_parallel_size != 0)
    return wrong("num_gpus_per_node", fmt::format("wanted a multiple of elasticity.model_parallel_size, {}, got {}",
                                                  s.model_parallel_size, s.num_gpus_per_node));
  const auto sizes = sizes_of(s);
  if (sizes.empty()) return wrong("micro_batch_sizes", "wanted at least one size, got none");
  const uint64_t most = s.max_train_batch_size / data_of_node(s);
  if (*sizes.rbegin() > most)
    return wrong("micro_batch_sizes",
                 fmt::format("wanted sizes of at most {}, elasticity.max_train_batch_size{}, got "
                             "{}",
                             most, by_nodes(s) ? " for each data rank of a node" : "", *sizes.rbegin()));
  return std::nullopt;
}

tl::expected<elastic_batch, elastic_problem> elastic_batch_for(const elasticity_section& s, uint64_t ranks,
                                                               uint64_t data) {
  if (auto wrong = elastic_problem_of(s)) return tl::unexpected(std::move(*wrong));
  const auto sizes = sizes_of(s);
  const uint64_t node = data_of_node(s), ranks_of_node = by_nodes(s) ? s.num_gpus_per_node : 1;
  const uint64_t most = s.max_train_batch_size / node, least_nodes = s.min_gpus / ranks_of_node,
                 most_nodes = s.max_gpus / ranks_of_node;
  auto best = best_batch(sizes, most, std::max<uint64_t>(least_nodes, 1),
                         most_nodes == 0 ? most / *sizes.begin() : most_nodes, s.prefer_larger_batch);
  if (!best)
    return refused("min_gpus", fmt::format("a batch of at most {} samples cannot be divided over any number of ranks "
                                           "from {} to {}; change min_gpus, max_gpus or micro_batch_sizes",
                                           s.max_train_batch_size, s.min_gpus, s.max_gpus));
  best->batch *= node;
  for (uint64_t& count : best->counts) count *= node;
  if (by_nodes(s) && !std::ranges::binary_search(best->counts, ranks / s.model_parallel_size))
    best = own_batch(s, ranks);
  if (!std::ranges::binary_search(best->counts, data))
    return tl::unexpected(elastic_problem{
        "parallel.data",
        fmt::format(
            "wanted a degree that divides the elasticity batch of {} samples into whole micro-batches ({}), got {}",
            best->batch, nearest_of(best->counts, data), data)});
  elastic_batch out{best->batch, std::move(best->counts), 0};
  for (const uint64_t size : sizes)
    // Sizes ascend, so the largest size that divides the batch remains.
    if (out.train / data % size == 0) out.micro = size;
  if (out.micro == 0)
    return refused("micro_batch_sizes", fmt::format("no size divides the {} samples of each of {} data "
                                                    "ranks: add one that does",
                                                    out.train / data, data));
  return out;
}

tl::expected<elastic_batch, elastic_problem> elastic_batch_at(const elasticity_section& s, uint64_t data) {
  auto out = elastic_batch_for(s, data * s.model_parallel_size, data);
  if (out && out->train == 0)
    return refused("max_train_batch_size",
                   fmt::format("wanted at least one micro-batch for each of the {} data ranks, got {} samples", data,
                               s.max_train_batch_size));
  return out;
}

}  // namespace troupe::config
