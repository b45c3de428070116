#include "telemetry/analysis/kineto_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/number.hpp"
#include "core/text.hpp"
#include "telemetry/analysis/read_traces.hpp"
#include "telemetry/analysis/step_maker.hpp"
#include "telemetry/analysis/trace_events.hpp"

namespace troupe::telemetry {
namespace {

/// Longest time between the end of a kernel and the start of a kernel in another stream that is taken for a wait of the
/// second for the first: a profiler does not record such waits.
constexpr int64_t handover_ns = 20'000;

/// Shift of a rank's clock, in ns, that is told to the user.
constexpr int64_t told_shift_ns = 100'000;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_device_work(const trace_event& e) {
  return e.category == "kernel" || e.category == "gpu_memcpy" || e.category == "gpu_memset";
}
bool is_call(const trace_event& e) { return e.category == "cuda_runtime" || e.category == "cuda_driver"; }
bool is_loader(const trace_event& e) {
  return (e.category == "user_annotation" || e.category == "cpu_op") && contains(e.name, "DataLoader");
}
// Categories that repeat or annotate events of the others.
bool adds_nothing(const std::string& category) {
  static const std::set<std::string> known = {"ac2g",
                                              "fwdbwd",
                                              "python_function",
                                              "user_annotation",
                                              "Trace",
                                              "overhead",
                                              "gpu_user_annotation",
                                              "cpu_instant_event",
                                              "cpu_op",
                                              "cuda_profiler_range",
                                              ""};
  return known.contains(category);
}

// Calls that end when work of the device has ended.
bool waits_for_device(std::string_view name) { return contains(name, "Synchronize"); }

struct kernel_class {
  work_sort sort = work_sort::compute;
  std::string kind;
};
kernel_class class_of(const trace_event& e) {
  const std::string name = core::lowered(e.name);
  if (contains(name, "nccl")) {
    if (!e.collective_name.empty()) return {work_sort::communication, e.collective_name};
    for (const auto& [part, kind] : {std::pair{"allreduce", "allreduce"},
                                     {"allgather", "allgather"},
                                     {"reducescatter", "reduce_scatter"},
                                     {"sendrecv", "send_receive"},
                                     {"broadcast", "broadcast"},
                                     {"alltoall", "all_to_all"}})
      if (contains(name, part)) return {work_sort::communication, kind};
    return {work_sort::communication, "nccl"};
  }
  if (e.category == "gpu_memcpy") return {work_sort::host, name.substr(0, name.find(" ("))};
  if (e.category == "gpu_memset") return {work_sort::compute, "memset"};
  if (contains(name, "adam") || contains(name, "multi_tensor_apply") || contains(name, "optimizer"))
    return {work_sort::update, "optimizer"};
  for (const auto* part : {"gemm", "cutlass", "nvjet", "matmul"})
    if (contains(name, part)) return {work_sort::compute, "product"};
  for (const auto* part : {"flash", "attention", "fmha"})
    if (contains(name, part)) return {work_sort::compute, "attention"};
  return {work_sort::compute, "kernel"};
}

kernel_class class_of_operation(const std::string& name) {
  if (contains(name, "DataLoader")) return {work_sort::loading, "load"};
  if (name.starts_with("gloo:") || name.starts_with("c10d::") || name.starts_with("mpi:"))
    return {work_sort::communication, name.substr(name.find_last_of(':') + 1)};
  if (name.starts_with("Optimizer.")) return {work_sort::update, "optimizer"};
  return {work_sort::compute, name};
}

struct window {
  int64_t start_ns = 0, end_ns = 0;
};

// One event of one rank's step, before the step is assembled.
struct piece {
  int64_t start_ns = 0, end_ns = 0;
  std::string lane, name;
  kernel_class is;
  std::string group;
  std::optional<uint64_t> launched_by;  // correlation of a kernel
  std::optional<uint64_t> launches;     // correlation of a call
  bool on_device = false, is_sync = false, is_operation = false;
};

struct rank_step {
  std::vector<piece> pieces;
  int64_t before_ns = std::numeric_limits<int64_t>::min();  // end of the device's work of the step before
};

class kineto_rank {
 public:
  kineto_rank(const kineto_file& file, const std::vector<uint64_t>& numbers) : file_(file) {
    for (const uint64_t n : numbers) steps[n];
  }

  // Reads the file three times: windows of steps, the calls within them, the kernels that these calls launched.
  core::result<void> read(size_t& spans, std::map<std::string, uint64_t>& unknown) {
    TROUPE_TRY(each([&](const trace_event& e, window w) {
      if (const auto step = kineto_step_of(e.name)) windows_[*step] = w;
      if (!is_device_work(e) && !is_call(e) && !adds_nothing(e.category)) ++unknown[e.category];
      return core::result<void>();
    }));
    TROUPE_TRY(each([&](const trace_event& e, window w) { return take_host(e, w, spans); }));
    TROUPE_TRY(each([&](const trace_event& e, window w) { return take_device(e, w, spans); }));
    return {};
  }

  std::map<uint64_t, rank_step> steps;

 private:
  // Calls f(event, its times) for each event with a duration.
  core::result<void> each(const auto& f) {
    TROUPE_TRY(read_events(file_.path, [&](const trace_event& e) -> core::result<void> {
      if (e.phase != "X" || !e.at_ns || !e.length_ns || *e.length_ns < 0) return {};
      const int64_t start = *e.at_ns + file_.base_ns;
      return f(e, window{start, start + *e.length_ns});
    }));
    return {};
  }

  static piece piece_of(const trace_event& e, window w, std::string lane) {
    piece p;
    p.start_ns = w.start_ns, p.end_ns = w.end_ns;
    p.lane = std::move(lane);
    p.name = e.name;
    return p;
  }

  // True for a kept step and for the one before it, whose work may still be under way when the kept step starts.
  [[nodiscard]] bool matters(uint64_t step) const { return steps.contains(step) || steps.contains(step + 1); }

  // Returns the step in whose window a time lies.
  [[nodiscard]] std::optional<uint64_t> step_at(int64_t at_ns) const {
    for (const auto& [step, w] : windows_)
      if (at_ns >= w.start_ns && at_ns < w.end_ns) return step;
    return std::nullopt;
  }

  core::result<void> keep(uint64_t step, piece p, size_t& spans) {
    if (++spans > max_kept_spans)
      return fail(error_kind::limit,
                  fmt::format("'{}': more than {} events in the kept steps; analyse one step, with --step",
                              file_.path.string(), max_kept_spans));
    steps[step].pieces.push_back(std::move(p));
    return {};
  }

  core::result<void> take_host(const trace_event& e, window w, size_t& spans) {
    const bool is_operation = e.category == "cpu_op" || is_loader(e);
    if (!is_call(e) && !is_operation) return {};
    const auto step = step_at(w.start_ns);
    if (!step) return {};
    if (is_call(e) && e.correlation && matters(*step)) launched_in_[*e.correlation] = *step;
    if (!steps.contains(*step)) return {};
    piece p = piece_of(e, w, "thread " + e.thread);
    p.is_operation = is_operation;
    p.is = is_operation ? class_of_operation(e.name) : kernel_class{work_sort::host, "launch"};
    p.is_sync = is_call(e) && waits_for_device(e.name);
    if (p.is_sync) p.is.kind = "synchronise";
    if (is_call(e)) p.launches = e.correlation;
    return keep(*step, std::move(p), spans);
  }

  core::result<void> take_device(const trace_event& e, window w, size_t& spans) {
    if (!is_device_work(e)) return {};
    std::optional<uint64_t> step;
    if (!e.correlation || launched_in_.empty())
      step = step_at(w.start_ns);
    else if (const auto at = launched_in_.find(*e.correlation); at != launched_in_.end())
      step = at->second;
    if (!step) return {};
    if (const auto next = steps.find(*step + 1); next != steps.end())
      next->second.before_ns = std::max(next->second.before_ns, w.end_ns);
    if (!steps.contains(*step)) return {};
    piece p = piece_of(e, w, "stream " + e.stream.value_or(e.thread));
    p.is = class_of(e);
    p.group = e.group;
    p.launched_by = e.correlation;
    p.on_device = true;
    return keep(*step, std::move(p), spans);
  }

  const kineto_file& file_;
  std::map<uint64_t, window> windows_;
  std::unordered_map<uint64_t, uint64_t> launched_in_;  // [correlation]: the step of the call, of steps that matter
};

// Drops what the graph does not need: operations of a host whose kernels are there, operations that contain others, and
// work before the device has ended the step before.
void simplify(rank_step& s) {
  const bool has_device = std::ranges::any_of(s.pieces, &piece::on_device);
  std::erase_if(s.pieces, [&](const piece& p) {
    return (has_device && p.is_operation && p.is.sort != work_sort::loading) || p.end_ns <= s.before_ns;
  });
  for (auto& p : s.pieces) p.start_ns = std::max(p.start_ns, s.before_ns);
  std::ranges::stable_sort(s.pieces, [](const piece& a, const piece& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  std::vector<piece> out;
  for (size_t i = 0; i < s.pieces.size(); ++i) {
    const auto& p = s.pieces[i];
    const bool holds_next = i + 1 < s.pieces.size() && !p.on_device && s.pieces[i + 1].lane == p.lane &&
                            s.pieces[i + 1].start_ns < p.end_ns && p.is.sort != work_sort::loading;
    const bool is_within_loader = !out.empty() && !p.on_device && out.back().lane == p.lane &&
                                  out.back().is.sort == work_sort::loading && p.start_ns < out.back().end_ns;
    if (!holds_next && !is_within_loader) out.push_back(p);
  }
  s.pieces = std::move(out);
}

// Adds the pieces of one rank, and the order in which they had to happen.
void add_rank(step_maker& maker, uint32_t number, const rank_step& s) {
  const uint32_t rank = maker.rank(number);
  std::unordered_map<uint64_t, uint32_t> calls;  // [correlation]: the span of the call
  std::map<std::string, uint32_t> counts;        // number of collectives of a group and kind so far
  std::vector<uint32_t> device;
  std::vector<uint32_t> ends;
  const auto first = static_cast<uint32_t>(maker.step().spans.size());
  std::vector<const piece*> sorted;
  for (const auto& p : s.pieces) sorted.push_back(&p);
  std::ranges::stable_sort(sorted, {}, [](const piece* p) { return p->start_ns; });
  for (const auto* const p : sorted) {
    traced_span x;
    x.rank = rank;
    x.lane = maker.lane(rank, p->lane, false);
    x.kind = maker.kind(p->is.kind);
    x.name = maker.name(p->name);
    x.sort = p->is.sort;
    x.start_ns = p->start_ns, x.end_ns = p->end_ns;
    if (p->on_device && p->is.sort == work_sort::communication) {
      const std::string key = p->group + "\n" + p->is.kind;
      x.collective = maker.collective(fmt::format("{}\n{}", key, counts[key]++));
    }
    const uint32_t at = maker.add(std::move(x));
    if (p->launches) calls[*p->launches] = at;
    if (p->on_device) device.push_back(at);
  }
  auto& spans = maker.step().spans;
  ends = device;
  std::ranges::sort(ends, {}, [&](uint32_t i) { return spans[i].end_ns; });
  // Returns the device work that ended last at or before a time.
  const auto ended_before = [&](int64_t at_ns) -> std::optional<uint32_t> {
    const auto at = std::ranges::upper_bound(ends, at_ns, {}, [&](uint32_t i) { return spans[i].end_ns; });
    return at == ends.begin() ? std::nullopt : std::optional(*std::prev(at));
  };
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto& p = *sorted[i];
    auto& x = spans[first + i];
    if (p.is_sync)
      if (const auto on = ended_before(x.end_ns); on && spans[*on].end_ns >= x.start_ns) x.awaits.push_back(*on);
    if (!p.on_device) continue;
    if (p.launched_by)
      if (const auto call = calls.find(*p.launched_by); call != calls.end()) x.after_start.push_back(call->second);
    if (const auto on = ended_before(x.start_ns);
        on && *on != first + i && spans[*on].lane != x.lane && x.start_ns - spans[*on].end_ns <= handover_ns)
      x.after.push_back(*on);
  }
}

// Moves the clocks of all ranks so that the collectives that a rank shares with the first rank end together.
void align(traced_step& s, std::map<uint32_t, int64_t>& moved) {
  std::vector<std::vector<uint32_t>> members(s.collectives);
  for (uint32_t i = 0; i < s.spans.size(); ++i)
    if (s.spans[i].collective != no_index) members[s.spans[i].collective].push_back(i);
  std::vector<std::vector<int64_t>> ahead(s.ranks.size());
  for (const auto& all : members) {
    const auto first = std::ranges::find_if(all, [&](uint32_t i) { return s.spans[i].rank == 0; });
    if (first == all.end()) continue;
    for (const uint32_t i : all) ahead[s.spans[i].rank].push_back(s.spans[i].end_ns - s.spans[*first].end_ns);
  }
  std::vector<int64_t> shift(s.ranks.size(), 0);
  for (size_t r = 1; r < shift.size(); ++r) {
    if (ahead[r].empty()) continue;
    std::ranges::sort(ahead[r]);
    shift[r] = ahead[r][ahead[r].size() / 2];
    moved[s.ranks[r]] = shift[r];
  }
  for (auto& x : s.spans) x.start_ns -= shift[x.rank], x.end_ns -= shift[x.rank];
}

// Returns the number of collectives that one rank of several has alone.
size_t num_alone(const traced_step& s) {
  if (s.ranks.size() == 1) return 0;
  std::vector<uint32_t> count(s.collectives, 0);
  for (const auto& x : s.spans)
    if (x.collective != no_index) ++count[x.collective];
  return static_cast<size_t>(std::ranges::count(count, 1U));
}

}  // namespace

std::optional<uint64_t> kineto_step_of(std::string_view name) {
  constexpr std::string_view prefix = "ProfilerStep#";
  return name.starts_with(prefix) ? core::number_of<uint64_t>(name.substr(prefix.size())) : std::nullopt;
}

core::result<std::vector<traced_step>> read_kineto_steps(const std::vector<kineto_file>& files,
                                                         const std::vector<uint64_t>& numbers,
                                                         std::vector<std::string>& notes) {
  std::map<uint64_t, step_maker> makers;
  for (const uint64_t n : numbers) makers.try_emplace(n, n);
  std::map<std::string, uint64_t> unknown;
  size_t spans = 0;
  for (const auto& file : files) {
    kineto_rank rank(file, numbers);
    TROUPE_TRY(rank.read(spans, unknown));
    for (auto& [number, step] : rank.steps) {
      simplify(step);
      if (step.pieces.empty())
        return core::refused(
            fmt::format("'{}': step {} has no kernel and no operation: wanted a trace with "
                        "ProfilerActivity.CPU or CUDA",
                        file.path.string(), number));
      add_rank(makers.at(number), file.rank, step);
    }
  }
  std::vector<traced_step> out;
  std::map<uint32_t, int64_t> moved;
  size_t alone = 0;
  for (auto& [number, maker] : makers) {
    out.push_back(maker.finished());
    alone += num_alone(out.back());
    align(out.back(), moved);
  }
  for (const auto& [category, count] : unknown)
    notes.push_back(
        fmt::format("not understood and left out: {} events of category '{}'", count, core::shown(category)));
  if (alone > 0)
    notes.push_back(
        fmt::format("{} collectives are in the file of one rank only: who waited in them is not known", alone));
  for (const auto& [rank, shift] : moved)
    if (shift > told_shift_ns || shift < -told_shift_ns)
      notes.push_back(
          fmt::format("the clock of rank {} was moved by {:.3f} ms, so that its collectives end together with "
                      "those of the first rank",
                      rank, -double(shift) / 1e6));
  return out;
}

}  // namespace troupe::telemetry
