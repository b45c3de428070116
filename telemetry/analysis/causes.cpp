#include "telemetry/analysis/causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/text.hpp"

namespace troupe::telemetry {
namespace {

/// Least ratio of the time that a rank loses to that of the next rank if a sentence names the rank.
constexpr double one_rank_ratio = 2;

struct collective_key {
  std::string_view kind, key;
};
// The key that changes when or how often collectives of a kind run.
constexpr collective_key collective_keys[] = {
    {"gather", "zero_optimization.stage3_prefetch_bucket_size"},
    {"reduce", "zero_optimization.reduce_bucket_size"},
    {"publish", "zero_optimization.allgather_bucket_size"},
    {"exchange", "tensor_parallel.exchange_pieces"},
    {"send", "pipeline.schedule"},
    {"vote", "cluster.early_updates"},
};

std::string key_of(const tried_change& c, trace_program program) {
  if (program != trace_program::troupe) return {};
  switch (c.sort) {
    case change_sort::equal_stages:
      return "pipeline.partition";
    case change_sort::free_loading:
      return "data.prefetch_batches";
    case change_sort::free_disk:
      return "aio.queue_depth";
    case change_sort::free_saving:
      return "checkpoint.staging_bytes";
    case change_sort::free_update:
      return "cluster.early_updates";
    case change_sort::free_collective: {
      const auto at = std::ranges::find(collective_keys, c.subject, &collective_key::kind);
      return at == std::end(collective_keys) ? std::string() : std::string(at->key);
    }
    case change_sort::equal_rank:
    case change_sort::equal_link:
    case change_sort::free_host:
    case change_sort::no_gaps:
    case change_sort::no_pause:
      break;
  }
  return {};
}

std::string ms_text(double seconds) { return core::text_of("%.3g ms", 1e3 * seconds); }

// Returns the first half of a sentence: what is so, and what is tried.
std::string claim_of(const proposed_change& c, trace_program program) {
  switch (c.sort) {
    case change_sort::equal_rank:
      return core::text_of("rank %s computes %.2f times as long as the others; as fast as they are", c.subject.c_str(),
                           c.ratio);
    case change_sort::equal_stages:
      return core::text_of("the pipeline is unbalanced, stage %s computes %.2f times as long as the mean; balanced",
                           c.subject.c_str(), c.ratio);
    case change_sort::equal_link:
      return core::text_of(
          "the link of ranks %s takes %.2f times as long as others for the same bytes; as fast as they are",
          c.subject.c_str(), c.ratio);
    case change_sort::free_collective:
      return fmt::format("compute waits for {}; {} that {}",
                         c.subject == "send" ? "transfers between stages" : c.subject,
                         "with communication of this kind", "takes no time");
    case change_sort::free_loading:
      return "compute waits for batches; with batches that are there when they are wanted";
    case change_sort::free_disk:
      return "the step waits for swap files; with a disk that takes no time";
    case change_sort::free_saving:
      return "the step waits for a checkpoint; with saves that take no time";
    case change_sort::free_update:
      return "the step waits for the optimizer; with updates that are hidden behind other work";
    case change_sort::free_host:
      return "the device waits for the program that launches its kernels; with launches that take no time";
    case change_sort::no_gaps:
      return program == trace_program::troupe
                 ? "lanes are idle although nothing holds their next instruction back, as without a free processor; "
                   "without these gaps"
                 : "streams are idle although their next kernel is launched; without these gaps";
    case change_sort::no_pause:
      return "all ranks pause between steps; without the pause";
  }
  return {};
}

bool is_outlier(change_sort s) {
  return s == change_sort::equal_rank || s == change_sort::equal_stages || s == change_sort::equal_link;
}

double least_gain(change_sort s) {
  return is_outlier(s) ? min_outlier_gain : s == change_sort::free_update ? min_update_gain : min_cause_gain;
}

// Returns the time of a span that a change without a subject removes, if one rank may have more of it than others.
int64_t removed_ns(change_sort s, const step_graph& g, uint32_t span) {
  const auto sort = g.step().spans[span].sort;
  switch (s) {
    case change_sort::free_loading:
      return sort == work_sort::loading ? g.measured().work[span] : 0;
    case change_sort::free_disk:
      return sort == work_sort::disk ? g.measured().work[span] : 0;
    case change_sort::free_saving:
      return sort == work_sort::saving ? g.measured().work[span] : 0;
    case change_sort::no_gaps:
      return sort == work_sort::compute ? g.measured().gap[span] : 0;
    case change_sort::equal_rank:
    case change_sort::equal_stages:
    case change_sort::equal_link:
    case change_sort::free_collective:
    case change_sort::free_update:
    case change_sort::free_host:
    case change_sort::no_pause:
      break;
  }
  return 0;
}

// Adds up what the steps have, and turns sums into means.
class summary {
 public:
  explicit summary(const kept_traces& traces) : traces_(traces) {}

  core::result<trace_analysis> made() {
    for (const auto& s : traces_.steps) TROUPE_TRY(add(s));
    const auto n = static_cast<int64_t>(traces_.steps.size());
    out_.program = traces_.program;
    out_.steps_seen = traces_.steps_seen;
    out_.notes = traces_.notes;
    out_.step_s = double(length_ns_) / double(n) / 1e9;
    out_.pause_s = pauses_ > 0 ? double(pause_ns_) / double(pauses_) / 1e9 : 0;
    for (const auto& [key, ns] : path_)
      out_.path.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), ns / n});
    std::ranges::stable_sort(out_.path, std::greater<>(), &path_share::ns);
    for (const auto& [kind, x] : exposed_)
      out_.exposed.push_back({kind, x.count / static_cast<uint64_t>(n), x.moving_ns / n, x.exposed_ns / n});
    std::ranges::stable_sort(out_.exposed, std::greater<>(), &exposed_kind::exposed_ns);
    for (const auto& [pair, ns] : waits_) out_.waits.push_back({pair.first, pair.second, ns / n});
    std::ranges::stable_sort(out_.waits, std::greater<>(), &rank_wait::ns);
    propose();
    return std::move(out_);
  }

 private:
  struct sum {
    int64_t gain_ns = 0;
    double ratio = 0;
    int64_t steps = 0;
  };

  core::result<void> add(const traced_step& s) {
    TROUPE_ASSIGN(const auto g, step_graph::of(s));
    if (!out_.steps.empty() && out_.steps.back().number + 1 != s.number) last_end_ns_.reset();
    auto f = figures_of(g);
    out_.ranks = std::max(out_.ranks, s.ranks.size());
    length_ns_ += f.length_ns;
    for (const auto& p : f.path) path_[{p.kind, p.sort, p.idle}] += p.ns;
    for (const auto& e : f.exposed) {
      auto& to = exposed_[e.kind];
      to.count += e.count, to.moving_ns += e.moving_ns, to.exposed_ns += e.exposed_ns;
    }
    for (const auto& w : f.waits) waits_[{w.rank, w.for_rank}] += w.ns;
    for (const auto& c : changes_of(g)) {
      auto& to = changes_[{c.sort, c.subject}];
      to.gain_ns += c.gain_ns, to.ratio += c.ratio, ++to.steps;
    }
    for (const auto sort :
         {change_sort::free_loading, change_sort::free_disk, change_sort::free_saving, change_sort::no_gaps})
      for (uint32_t i = 0; i < s.spans.size(); ++i) on_rank_[sort][s.ranks[s.spans[i].rank]] += removed_ns(sort, g, i);
    if (traces_.program == trace_program::troupe && last_end_ns_ && g.bounds().start_ns > *last_end_ns_) {
      pause_ns_ += g.bounds().start_ns - *last_end_ns_;
      ++pauses_;
    }
    last_end_ns_ = g.bounds().end_ns;
    out_.steps.push_back(std::move(f));
    return {};
  }

  // Returns words about the rank that has much more of the time that a change removes than the other ranks have; empty
  // if there is none.
  [[nodiscard]] std::string where(change_sort sort) const {
    const auto at = on_rank_.find(sort);
    if (at == on_rank_.end() || at->second.size() < 2) return {};
    const auto most = std::ranges::max_element(at->second, {}, [](const auto& r) { return r.second; });
    int64_t next = 0;
    for (const auto& [rank, ns] : at->second)
      if (rank != most->first) next = std::max(next, ns);
    if (double(most->second) < one_rank_ratio * double(next)) return {};
    return fmt::format(", on rank {} above all", most->first);
  }

  void propose() {
    if (pauses_ > 0) {
      auto& to = changes_[{change_sort::no_pause, std::string()}];
      to.gain_ns = pause_ns_ / pauses_ * static_cast<int64_t>(traces_.steps.size());
      to.steps = 1;
    }
    for (const auto& [key, x] : changes_) {
      tried_change c{key.first, key.second, x.ratio / double(x.steps), x.gain_ns};
      proposed_change p;
      p.sort = c.sort, p.subject = c.subject, p.ratio = c.ratio;
      p.gain_s = double(x.gain_ns) / double(traces_.steps.size()) / 1e9;
      const double whole_s = out_.step_s + (c.sort == change_sort::no_pause ? out_.pause_s : 0);
      p.share = whole_s > 0 ? p.gain_s / whole_s : 0;
      p.is_cause = p.share >= least_gain(c.sort);
      p.key = key_of(c, traces_.program);
      p.sentence = claim_of(p, traces_.program) +
                   fmt::format(" a step takes {} less ({}){}", ms_text(p.gain_s),
                               core::text_of("%.1f %%", 100 * p.share), where(c.sort)) +
                   (p.key.empty() ? std::string() : ": " + p.key);
      out_.changes.push_back(std::move(p));
    }
    // A change that names a subject counts as much as one that it explains.
    const auto weight = [](const proposed_change& c) {
      return (is_outlier(c.sort) && c.is_cause ? 1 / explaining_share : 1.0) * c.share;
    };
    std::ranges::stable_sort(out_.changes, [&](const auto& a, const auto& b) {
      return a.is_cause != b.is_cause ? a.is_cause : weight(a) > weight(b);
    });
    if (out_.changes.size() > max_listed_changes) out_.changes.resize(max_listed_changes);
  }

  const kept_traces& traces_;
  trace_analysis out_;
  int64_t length_ns_ = 0;
  std::map<std::tuple<std::string, work_sort, bool>, int64_t> path_;
  std::map<std::string, exposed_kind> exposed_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> waits_;
  std::map<std::pair<change_sort, std::string>, sum> changes_;
  std::map<change_sort, std::map<uint32_t, int64_t>> on_rank_;
  std::optional<int64_t> last_end_ns_;  // end of the step before, if it is the one before in the trace
  int64_t pause_ns_ = 0, pauses_ = 0;
};

}  // namespace

core::result<trace_analysis> analyse(const kept_traces& traces) { return summary(traces).made(); }

}  // namespace troupe::telemetry
