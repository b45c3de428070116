#include "telemetry/figures/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/mean.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
step_summary summarise(std::span<const rank_spans> ranks, uint32_t cores) {
  step_summary s;
  const double n = double(ranks.size()) * 1e9;
  const posted_times posted(ranks);
  int64_t begin = INT64_MAX, end = 0;
  for (const auto& c : ranks) {
    const auto& p = *c.plan;
    std::vector<interval> busy[plan::num_lanes], collectives;
    int64_t first = INT64_MAX, last = 0;
    for (const auto& x : p.instructions) {
      const interval i = c.spans[x.id];
      first = std::min(first, i.start_ns);
      last = std::max(last, i.end_ns);
      busy[static_cast<size_t>(x.lane)].push_back(i);
      if (x.sequence != plan::none) collectives.push_back(moving(c, x.id, posted));
    }
    const auto moved = joined(std::move(collectives));
    std::vector<interval> work = busy[static_cast<size_t>(plan::lane::compute)];
    const std::vector<interval> compute = joined(work);
    const auto& shard = busy[static_cast<size_t>(plan::lane::shard)];
    work.insert(work.end(), shard.begin(), shard.end());
    work = joined(std::move(work));
    begin = std::min(begin, first), end = std::max(end, last);
    s.step_s += double(last - first) / n;
    s.compute_s += double(length_ns(compute)) / n;
    s.communication_s += double(length_ns(moved)) / n;
    s.exposed_s += double(length_ns(moved) - common_length_ns(moved, work)) / n;
    for (size_t l = 0; l < plan::num_lanes; ++l) s.idle_s[l] += double(last - first - length_ns(joined(busy[l]))) / n;
  }
  for (const size_t r : stage_leaders(ranks))
    for (const auto& x : ranks[r].plan->instructions) {
      const plan::hidden_work work = plan::row_of(x.kind).hidden;
      s.gathers += work == plan::hidden_work::gathers;
      s.releases += x.kind == plan::kind::release;
      s.reductions += work == plan::hidden_work::reductions;
    }
  s.overlap = overlap_of(ranks);
  s.io = io_of(ranks);
  s.whole_s = double(end - begin) / 1e9;
  s.control = control_of(ranks, cores);
  s.work = work_of(ranks, posted);
  s.division = divide(ranks, posted);
  return s;
}

void add_step(step_summary& run, const step_summary& x, uint64_t steps) {
  for (const auto figure : {&step_summary::step_s, &step_summary::whole_s, &step_summary::compute_s,
                            &step_summary::communication_s, &step_summary::exposed_s})
    take_mean(run.*figure, x.*figure, steps);
  for (size_t i = 0; i < plan::num_lanes; ++i) take_mean(run.idle_s[i], x.idle_s[i], steps);
  run.gathers += x.gathers;
  run.releases += x.releases;
  run.reductions += x.reductions;
  take_mean(run.overlap, x.overlap, steps);
  take_mean(run.io, x.io, steps);
  take_mean(run.control, x.control, steps);
  take_mean(run.work, x.work, steps);
  take_mean(run.division, x.division, steps);
}

namespace {

std::string named(const char* what, uint32_t process, const std::string& thread, const std::string& name) {
  return fmt::format("{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{}{},\"args\":{{\"name\":{}}}}},\n", what, process, thread,
                     json_string(name));
}

// Returns the thread number of a lane in the trace. The compute lane of a pipeline has a thread for each stage of the
// rank, and `chunk` is the index of the stage; chunk 0 has the number of the lane.
uint32_t thread_of(plan::lane lane, size_t chunk) {
  return static_cast<uint32_t>(static_cast<size_t>(lane) + chunk * plan::num_lanes);
}

// Returns the members of an event's arguments that give the order of the step: the ids of the instructions that `x`
// waits for and, for a collective, its communicator and its position among the collectives of that communicator.
std::string order_text(const plan::instruction& x) {
  std::string out = ",\"after\":[";
  const char* separator = "";
  for (const uint32_t on : x.after) {
    out += separator + std::to_string(on);
    separator = ",";
  }
  out += ']';
  if (x.sequence != plan::none) out += text_of(",\"collective\":[%u,%u]", x.communicator, x.sequence);
  return out;
}

}  // namespace

std::string trace_names(std::span<const rank_spans> ranks) {
  std::string out;
  for (const auto& r : ranks) {
    const auto& l = *r.plan->layout;
    const uint32_t rank = r.plan->rank;
    out += named("process_name", rank, "", plan::rank_text(l, rank));
    const auto thread = [&](plan::lane lane, size_t chunk, const std::string& stage) {
      out += named("thread_name", rank, fmt::format(",\"tid\":{}", thread_of(lane, chunk)),
                   std::string(plan::name_of(lane)) + stage);
    };
    for (uint32_t i = 0; i < plan::num_lanes; ++i) {
      const auto lane = static_cast<plan::lane>(i);
      if (lane != plan::lane::compute || plan::pipeline_ranks(l) == 1) {
        thread(lane, 0, "");
        continue;
      }
      const auto stages = plan::stages_of(l, l.options.mesh.pipeline_at(rank));
      for (size_t chunk = 0; chunk < stages.size(); ++chunk)
        thread(lane, chunk,
               fmt::format(", stage {}{}", stages[chunk], stages.size() > 1 ? text_of(", chunk %zu", chunk) : ""));
    }
  }
  return out;
}

std::string trace_clocks(std::span<const rank_spans> ranks) {
  std::string out;
  for (const auto& r : ranks)
    if (r.clock)
      out += text_of("%s\"rank %u\":{\"offset_us\":%.3f,\"error_us\":%.3f}", out.empty() ? "" : ",", r.plan->rank,
                     double(r.clock->offset_ns) / 1e3, double(r.clock->error_ns) / 1e3);
  return out.empty() ? out : "\"otherData\":{\"clocks\":{" + out + "}},";
}

std::string trace_events(std::span<const rank_spans> ranks, uint64_t step, int64_t zero_ns) {
  std::string out;
  for (const auto& c : ranks) {
    const auto& p = *c.plan;
    const auto ready = readiness_of(c);
    const auto stages = plan::stages_of(*p.layout, p.options().mesh.pipeline_at(p.rank));
    for (const auto& x : p.instructions) {
      if (c.spans[x.id].start_ns == not_run_ns) continue;
      const uint32_t stage = plan::pipeline_ranks(*p.layout) == 1 ? plan::none : plan::stage_served(*p.layout, x);
      const bool computes = x.lane == plan::lane::compute && stage != plan::none;
      const auto chunk = computes ? static_cast<size_t>(std::ranges::find(stages, stage) - stages.begin()) : 0;
      const int64_t could_ns = ready[x.id].at_ns;
      const int64_t start = c.spans[x.id].start_ns, end = c.spans[x.id].end_ns;
      const double wait_us = could_ns > 0 && start > could_ns ? double(start - could_ns) / 1e3 : 0.0;
      out += out.empty() ? "{\"name\":" : ",\n{\"name\":";
      out += json_string(p.describe(x.id)) + ",\"cat\":\"" + std::string(plan::name_of(x.kind)) +
             text_of(
                 "\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
                 "\"args\":{\"step\":%llu,\"id\":%u,\"bytes\":%llu,\"waited_us\":%.1f",
                 p.rank, thread_of(x.lane, chunk), double(start - zero_ns) / 1e3, double(end - start) / 1e3,
                 static_cast<unsigned long long>(step), x.id, static_cast<unsigned long long>(x.moved_bytes), wait_us) +
             order_text(x) + (stage == plan::none ? "}}" : text_of(",\"stage\":%u}}", stage));
    }
  }
  return out;
}

}  // namespace troupe::telemetry
