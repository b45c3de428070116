#include "telemetry/analysis/troupe_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/text.hpp"
#include "telemetry/analysis/read_traces.hpp"
#include "telemetry/analysis/step_maker.hpp"
#include "telemetry/analysis/trace_events.hpp"

namespace troupe::telemetry {
namespace {

struct lane_row {
  std::string_view name;
  work_sort sort;
  bool starts_ahead;
};
// Lanes by the names that a trace gives to its threads, before a comma.
constexpr lane_row lane_rows[] = {
    {"control", work_sort::loading, false},     {"compute", work_sort::compute, false},
    {"fabric", work_sort::communication, true}, {"shard", work_sort::update, false},
    {"writer", work_sort::saving, false},       {"io", work_sort::disk, true},
};

// Kind whose bytes may reach the disk after the step's end.
constexpr std::string_view late_kind = "write";

const lane_row* row_of_lane(std::string_view name) {
  const auto at = std::ranges::find(lane_rows, name.substr(0, name.find(',')), &lane_row::name);
  return at == std::end(lane_rows) ? nullptr : &*at;
}

class troupe_steps {
 public:
  troupe_steps(const std::vector<uint64_t>& numbers, std::string file) : file_(std::move(file)) {
    for (const uint64_t n : numbers) steps_.try_emplace(n, n);
  }

  core::result<void> take(const trace_event& e) {
    if (e.phase == "M" && e.name == "thread_name") threads_[{e.process, e.thread}] = e.given_name;
    if (e.phase != "X" || !e.step) return {};
    const auto at = steps_.find(*e.step);
    if (at == steps_.end()) return {};
    const auto broken = [&](const std::string& why) {
      return core::refused(fmt::format("'{}': step {}, process {}, '{}': {}", file_, *e.step, core::shown(e.process),
                                       core::shown(e.name), why));
    };
    if (!e.id || *e.id >= no_index || !e.at_ns || !e.length_ns)
      return broken("wanted args.id, ts and dur, numbers that fit; got none");
    if (*e.length_ns < 0) return broken("wanted a dur of at least 0");
    if (!e.after)
      return broken(
          "the instruction does not say what it waits for (args.after): the trace is of an older version; train again");
    uint32_t rank = 0;
    if (const auto number = rank_of(e.process))
      rank = *number;
    else
      return broken("wanted the number of a rank as pid");
    const auto name = threads_.find({e.process, e.thread});
    const lane_row* const row = name == threads_.end() ? nullptr : row_of_lane(name->second);
    if (row == nullptr)
      return broken(fmt::format("wanted a thread of the name control, compute, fabric, shard, writer or io, got '{}'",
                                name == threads_.end() ? "" : core::shown(name->second)));
    if (++spans_ > max_kept_spans)
      return fail(error_kind::limit, fmt::format("'{}': more than {} instructions in the kept steps; analyse one step, "
                                                 "with --step",
                                                 file_, max_kept_spans));
    return at->second.add(e, rank, *row) ? core::result<void>() : broken("two instructions have the same id");
  }

  core::result<std::vector<traced_step>> finished() {
    std::vector<traced_step> out;
    for (auto& [number, s] : steps_) {
      if (auto missing = s.order()) return core::refused(fmt::format("'{}': step {}, {}", file_, number, *missing));
      out.push_back(s.maker.finished());
    }
    return out;
  }

 private:
  struct one_step {
    explicit one_step(uint64_t number) : maker(number) {}

    // Returns false if the rank has another instruction with the event's id.
    bool add(const trace_event& e, uint32_t rank, const lane_row& row) {
      traced_span x;
      x.rank = maker.rank(rank);
      x.lane = maker.lane(x.rank, std::string(row.name), row.starts_ahead);
      x.kind = maker.kind(e.category);
      x.name = maker.name(e.name);
      x.sort = row.sort;
      x.ends_late = e.category == late_kind;
      x.bytes = e.bytes.value_or(0);
      x.start_ns = *e.at_ns;
      x.end_ns = *e.at_ns + *e.length_ns;
      x.after = *e.after;
      if (e.stage) x.stage = static_cast<uint32_t>(*e.stage);
      if (e.collective) {
        x.communicator = e.collective->first;
        x.collective = maker.collective(fmt::format("{}.{}", e.collective->first, e.collective->second));
      }
      const uint64_t key = key_of(x.rank, static_cast<uint32_t>(*e.id));
      return ids.try_emplace(key, maker.add(std::move(x))).second;
    }

    // Turns ids into indices; returns a sentence about the first id that the trace does not have.
    std::optional<std::string> order() {
      auto& s = maker.step();
      for (auto& x : s.spans)
        for (auto& on : x.after) {
          const auto at = ids.find(key_of(x.rank, on));
          if (at == ids.end())
            return fmt::format(
                "rank {}, '{}': it waits for instruction {}, which the trace does not have: the file is "
                "damaged",
                s.ranks[x.rank], core::shown(s.names[x.name]), on);
          on = at->second;
        }
      return std::nullopt;
    }

    static uint64_t key_of(uint32_t rank, uint32_t id) { return uint64_t{rank} << 32 | id; }

    step_maker maker;
    std::unordered_map<uint64_t, uint32_t> ids;
  };

  static std::optional<uint32_t> rank_of(const std::string& process) {
    if (process.empty() || process.size() > 9 || process.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    return static_cast<uint32_t>(std::stoul(process));
  }

  std::string file_;
  std::map<uint64_t, one_step> steps_;
  std::map<std::pair<std::string, std::string>, std::string> threads_;
  size_t spans_ = 0;
};

}  // namespace

core::result<std::vector<traced_step>> read_troupe_steps(const std::filesystem::path& file,
                                                         const std::vector<uint64_t>& numbers) {
  troupe_steps steps(numbers, file.string());
  TROUPE_TRY(read_events(file, [&](const trace_event& e) { return steps.take(e); }));
  return steps.finished();
}

}  // namespace troupe::telemetry
