#include "plan/show/render.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/memory_places.hpp"
#include "plan/stage_place.hpp"

namespace troupe::plan {
namespace {

constexpr double microseconds = 1e6;

using row = std::vector<std::string>;

std::string list_of(const std::vector<uint32_t>& ids) {
  std::string out;
  for (uint32_t id : ids) out.append(out.empty() ? "" : ",").append(fmt::to_string(id));
  return out.empty() ? "-" : out;
}

std::string place_of(const rank_plan& p, const instruction& x) {
  constexpr const char* pools[num_pools] = {"gathered:",   "buckets:", "directions:", "staging:", "transfers:",
                                            "compressed:", "states:",  "shards:",     "reduced:", "activations:"};
  const operation_slots& s = x.slots;
  for (const uint32_t slot : {s.parameters, s.gradients, s.matrices, s.staging, s.moved, s.window})
    if (slot != none) {
      const buffer& b = p.buffers[slot];
      return fmt::format("{}{}+{}", pools[static_cast<size_t>(b.pool)], b.offset, b.bytes);
    }
  return "-";
}

/// Returns an instruction as an event with the members from which `troupe analyse` reads its order: the step, the id,
/// the ids that it waits for, and for a collective its communicator and its position there.
std::string trace_event(const timeline& t, uint32_t index, const instruction& x) {
  const rank_plan& p = *t.plans[index];
  const timed& at = t.ranks[index].instructions[x.id];
  std::string out = fmt::format(
      "{{\"name\":{},\"cat\":{},\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},"
      "\"args\":{{\"step\":0,\"id\":{},\"bytes\":{},\"flops\":{},\"after\":[{}]",
      core::json_string(p.describe(x.id)), core::json_string(name_of(x.kind)), p.rank, static_cast<uint32_t>(x.lane),
      core::text_of("%.3f", at.start_s * microseconds), core::text_of("%.3f", (at.end_s - at.start_s) * microseconds),
      x.id, x.moved_bytes, core::text_of("%.0f", x.flops), fmt::join(x.after, ","));
  if (x.sequence != none)
    out += fmt::format(",\"collective\":[{},{}],\"waited_us\":{}", x.communicator, x.sequence,
                       core::text_of("%.3f", (at.moving_s - at.start_s) * microseconds));
  if (const uint32_t stage = pipeline_ranks(*p.layout) == 1 ? none : stage_served(*p.layout, x); stage != none)
    out += fmt::format(",\"stage\":{}", stage);
  return out + "}}";
}

struct budget {
  const char* name;
  uint64_t needed, allowed;  // bytes that the plan needs, and bytes of the budget; `allowed` 0: there is no budget
};

std::vector<owner_bytes> lying_on(tier t, std::vector<owner_bytes> owners) {
  std::erase_if(owners, [t](const owner_bytes& x) { return x.lies != t; });
  return owners;
}

std::string owners_table(const std::vector<owner_bytes>& owners, const budget& b) {
  std::vector<row> rows;
  uint64_t all = 0;
  for (const auto& x : owners) {
    if (x.bytes > 0) rows.push_back({"  " + x.label(), core::human_bytes(x.bytes)});
    all += x.bytes;
  }
  rows.push_back({"  in all", core::human_bytes(all)});
  if (b.allowed > 0) {
    rows.push_back({std::string("  of which the ") + b.name + " covers", core::human_bytes(b.needed)});
    rows.push_back({std::string("  ") + b.name, core::human_bytes(b.allowed)});
    rows.push_back(b.needed <= b.allowed ? row{"  fits, left over", core::human_bytes(b.allowed - b.needed)}
                                         : row{"  DOES NOT FIT, missing", core::human_bytes(b.needed - b.allowed)});
  }
  return aligned(rows, {false, true});
}

std::string named(const char* what, uint32_t process, const std::string& thread, const std::string& name) {
  return fmt::format("{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{}{},\"args\":{{\"name\":{}}}}}", what, process, thread,
                     core::json_string(name));
}

/// Returns the mark that follows the name of an instruction that runs only in some outcomes of the vote.
std::string mark_of(guard g) {
  switch (g) {
    case guard::always:
      return "";
    case guard::not_skipped:
      return " ?";
    case guard::clipped:
      return " ? clipped";
    case guard::skipped:
      return " ? skipped";
    case guard::undone:
      return " ? skipped or clipped";
  }
  return "";
}

}  // namespace

std::string as_table(const rank_plan& p) {
  std::vector<row> rows{{"id", "lane", "what", "micro", "buffer", "bytes", "flops", "after"}};
  for (const auto& x : p.instructions)
    rows.push_back({fmt::to_string(x.id), std::string(name_of(x.lane)), p.describe(x.id) + mark_of(x.guard),
                    fmt::to_string(x.micro), place_of(p, x), x.moved_bytes == 0 ? "-" : fmt::to_string(x.moved_bytes),
                    x.flops == 0 ? "-" : core::text_of("%.3g", x.flops), list_of(x.after)});
  return aligned(rows, {true, false, false, true, false, true, true, false});
}

std::string as_perfetto(const timeline& t) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  const auto add = [&](const std::string& event) {
    out += separator + event;
    separator = ",\n";
  };
  for (uint32_t i = 0; i < t.plans.size(); ++i) {
    const uint32_t rank = t.plans[i]->rank;
    add(named("process_name", rank, "", rank_text(*t.plans[i]->layout, rank)));
    for (uint32_t l = 0; l < num_lanes; ++l)
      add(named("thread_name", rank, fmt::format(",\"tid\":{}", l), std::string(name_of(static_cast<lane>(l)))));
    for (const auto& x : t.plans[i]->instructions) add(trace_event(t, i, x));
  }
  return out + "\n]}\n";
}

std::string as_dot(const rank_plan& p) {
  std::string out = "digraph step {\n  rankdir=LR;\n  node [shape=box, fontsize=10];\n  label=" +
                    core::json_string(rank_text(*p.layout, p.rank)) + ";\n";
  for (uint32_t l = 0; l < num_lanes; ++l) {
    const std::string lane_name(name_of(static_cast<lane>(l)));
    out += "  subgraph cluster_" + lane_name + " {\n    label=" + core::json_string(lane_name) + ";\n";
    for (uint32_t id : p.lanes[l]) {
      const auto& x = p.instructions[id];
      out += fmt::format("    i{} [label={}{}];\n", id, core::json_string(p.describe(id)),
                         x.guard == guard::always ? "" : ", style=dashed");
    }
    for (size_t i = 1; i < p.lanes[l].size(); ++i)
      out += fmt::format("    i{} -> i{} [style=dotted];\n", p.lanes[l][i - 1], p.lanes[l][i]);
    out += "  }\n";
  }
  for (const auto& x : p.instructions)
    for (uint32_t on : x.after)
      if (p.instructions[on].lane != x.lane) out += fmt::format("  i{} -> i{};\n", on, x.id);
  return out + "}\n";
}

std::string memory_summary(const timeline& t) {
  std::string out;
  for (size_t i = 0; i < t.plans.size(); ++i) {
    const auto& p = t.plans[i];
    out += fmt::format("rank {}", p->rank);
    if (t.stands_for[i] > 1)
      out += fmt::format(" and {}{} like it", t.stands_for[i] - 1, t.stands_for[i] == 2 ? " rank" : " ranks");
    if (const auto stages = stages_text(*p->layout, p->rank); !stages.empty()) out += ", " + stages;
    const auto& o = p->options();
    const auto owners = owners_of(p->memory, o.tiers);
    const budget host{"budget", budgeted_bytes(p->memory, o.tiers), o.memory_budget_bytes};
    if (o.tiers.apart) {
      const uint64_t needed = device_bytes(p->memory, o.tiers);
      out +=
          ", device memory\n" + owners_table(lying_on(tier::device, owners), {"limit", needed, o.device_budget_bytes});
      out += "host memory beside it\n" + owners_table(lying_on(tier::cpu, owners), host);
    } else {
      out += ", host memory\n" + owners_table(owners, host);
    }
  }
  return out;
}

}  // namespace troupe::plan
