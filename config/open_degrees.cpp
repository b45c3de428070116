#include "config/open_degrees.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::config {
namespace {

constexpr std::string_view ranks_key = "parallel.ranks", data_key = "parallel.data";

/// Limits of a job with open degrees: largest number of ranks, equal to the limit of a single degree, and largest
/// number of possible divisions of the ranks, each of which has to be planned.
constexpr uint64_t open_ranks_max = 65536;
constexpr size_t ways_max = 512;

/// Axes that may be `auto`, in the order in which divisions of the ranks are compared: of two divisions, the one with
/// the smaller degree at the first differing axis comes first. Data ranks are therefore preferred to all other axes,
/// and pipelines come last.
constexpr degree_key keys[] = {{"parallel.pipeline", &parallel_section::pipeline},
                               {"parallel.tensor", &parallel_section::tensor},
                               {"parallel.sequence", &parallel_section::sequence},
                               {"parallel.context", &parallel_section::context},
                               {data_key, &parallel_section::data}};

/// Returns the degree of axis `k` that the file gives, under Troupe's name or one of DeepSpeed's names; 1 or less:
/// none.
uint32_t given_degree(const degree_key& k, const job_config& c) {
  const auto& d = c.degrees;
  const uint32_t own = c.parallel.*k.degree;
  if (k.degree == &parallel_section::tensor) return std::max({own, d.autotp_size, d.tp_size});
  if (k.degree == &parallel_section::sequence)
    return std::max({own, d.sequence_parallel_size, d.sequence_enabled ? d.sequence_size : 1});
  return own;
}

/// Appends to `out` all ways to write `ranks` as a product of `keys_left` numbers, each after the numbers in `way`;
/// ways with a smaller first number come first.
void share_out(uint64_t ranks, size_t keys_left, std::vector<uint32_t>& way, std::vector<std::vector<uint32_t>>& out) {
  if (keys_left == 1) {
    way.push_back(static_cast<uint32_t>(ranks));
    out.push_back(way);
    way.pop_back();
    return;
  }
  for (uint64_t n = 1; n <= ranks; ++n) {
    if (ranks % n != 0) continue;
    way.push_back(static_cast<uint32_t>(n));
    share_out(ranks / n, keys_left - 1, way, out);
    way.pop_back();
  }
}

}  // namespace

std::string degrees_text(const parallel_section& p) {
  std::string out;
  for (const auto& [key, degree] :
       {std::pair("pipeline", p.pipeline), std::pair("data", p.data), std::pair("sequence", p.sequence),
        std::pair("context", p.context), std::pair("tensor", p.tensor)})
    if (degree > 1) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", key, degree);
  return out.empty() ? "1 rank" : out;
}

open_degrees find_open(settings& given, const job_config& c, reporter& report) {
  open_degrees out;
  const degree_key* said = nullptr;
  uint64_t fixed = 1;
  std::string others;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
    for (const auto& k : keys) given.refused.insert(std::string(k.key));
    return open_degrees{};
  };
  const auto is_auto = [&](const degree_key& k) { return given.is_auto(k.key) && given_degree(k, c) == 1; };
  for (const auto& k : keys) {
    if (given.was_refused(k.key)) return {};
    if (said == nullptr && is_auto(k)) said = &k;
  }
  // `data: auto` without another `auto` leaves no choice: the data degree follows from the other degrees, as if the key
  // were not given.
  if (said == nullptr || said->key == data_key || given.was_refused(ranks_key) || given.was_refused("parallel"))
    return out;
  for (const auto& k : keys) {
    if (is_auto(k) || (k.key == data_key && given.value_of(data_key) == nullptr)) {
      out.keys.push_back(&k);
    } else if (const uint32_t n = given_degree(k, c); n > 1) {
      fixed *= n;
      others += fmt::format("{}{} {}", others.empty() ? "" : " x ", k.name(), n);
    }
  }
  if (!c.parallel.all)
    return error(said->key, "auto requires parallel.ranks, the number of ranks to share out; set parallel.ranks");
  const uint64_t ranks = *c.parallel.all;
  if (ranks % fixed != 0)
    return error(ranks_key,
                 fmt::format("wanted a multiple of {}, the degrees that are not auto, got {}", others, ranks));
  if (ranks / fixed > open_ranks_max)
    return error(ranks_key,
                 fmt::format("wanted at most {} ranks to share out by auto, got {}", open_ranks_max, ranks / fixed));
  if (out.keys.size() > 1 && ranks / fixed == 1)
    return error(ranks_key, fmt::format("wanted at least {} ranks, so that auto can share some out{}, got {}",
                                        2 * fixed, others.empty() ? "" : " with " + others, ranks));
  const bool moves_data = out.keys.size() > 1 && out.keys.back()->key == data_key;
  if (constexpr std::string_view elastic = "elasticity.enabled"; moves_data && c.elasticity.enabled)
    return error(elastic,
                 fmt::format("cannot be combined with {}: auto yet; set it to false or give the degree", said->key));
  if (!c.cluster.store.empty())
    return error("cluster.store",
                 fmt::format("cannot be combined with {}: auto, because a host that takes the lead continues with the "
                             "degrees that were chosen; replace auto by a number, got {}",
                             said->key, c.cluster.store));
  if (moves_data && given.value_of("train_batch_size") == nullptr && !given.was_refused("train_batch_size"))
    return error(said->key,
                 "auto requires train_batch_size, so that a step has the same number of samples at each data degree; "
                 "set train_batch_size");
  std::vector<uint32_t> way;
  share_out(ranks / fixed, out.keys.size(), way, out.ways);
  if (out.ways.size() > ways_max)
    return error(ranks_key, fmt::format("wanted at most {} ways to share out {} ranks by auto, got {}: give a degree",
                                        ways_max, ranks / fixed, out.ways.size()));
  return out;
}

settings with_way(settings given, const open_degrees& open, size_t way) {
  for (size_t k = 0; k < open.keys.size(); ++k) {
    const std::string key(open.keys[k]->key);
    const place at = given.where(key);
    setting& s = given.given[key];
    if (s.row == nullptr)
      s = {.row = key_named(key), .key = key, .value = nullptr, .at = at, .name_at = at, .made = true};
    s.value = make_scalar(node_kind::plain, fmt::to_string(open.ways[way][k]), at);
    s.is_auto = false;
  }
  return given;
}

}  // namespace troupe::config
