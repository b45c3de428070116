#include "telemetry/figures/communication_log.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

constexpr const char* all_gather = "all_gather_into_tensor";
constexpr const char* reduce_scatter = "reduce_scatter_tensor";
constexpr const char* all_reduce = "all_reduce";
constexpr const char* send_receive = "send_receive";
constexpr const char* all_to_all = "all_to_all_single";

bool moves_all(const std::string& op) { return op == all_gather || op == reduce_scatter; }

communication_row row_of(const plan::rank_plan& p, const plan::instruction& x) {
  communication_row row;
  row.purpose = plan::name_of(x.kind);
  row.ranks = static_cast<uint32_t>(p.layout->communicators[x.communicator].members.size());
  const plan::kind_row& kind = plan::row_of(x.kind);
  row.op = plan::is_pair(kind.group) ? send_receive : all_gather;
  if (kind.elements == plan::moved_elements::reduced)
    row.op = p.options().reduce_to_all() ? all_reduce : reduce_scatter;
  if (kind.elements == plan::moved_elements::exchanged) {
    const core::exchange_op op = plan::exchange_of(*p.layout, x.subject, x.segment, x.use).op;
    if (op == core::exchange_op::sum) row.op = all_reduce;
    if (op == core::exchange_op::swap) row.op = all_to_all;
    if (op == core::exchange_op::scatter) row.op = reduce_scatter;
  }
  // `x.moved_bytes` of an all-gather or reduce-scatter are the bytes of all ranks together; a row shows those of one
  // rank.
  row.message_bytes = moves_all(row.op) ? x.moved_bytes / std::max<uint32_t>(1, row.ranks) : x.moved_bytes;
  return row;
}

// True if rank `p` records collective `x` in the log; exactly one member of each collective does.
bool speaks(const plan::rank_plan& p, const plan::instruction& x) {
  if (plan::is_transfer(x.kind)) return plan::sends(x.kind);
  return p.layout->communicators[x.communicator].members.front() == p.rank;
}

std::string shown(const communication_row& r, bool purpose) { return purpose ? r.op + " | " + r.purpose : r.op; }

}  // namespace

bandwidth bandwidth_of(const std::string& op, uint64_t message_bytes, uint32_t ranks, double ms) {
  if (!(ms > 0) || ranks == 0) return {};
  const double n = ranks, share = (n - 1) / n;
  const double bytes = double(message_bytes) * (moves_all(op) ? n : op == all_reduce ? 2 : 1);
  const double gbps = bytes * 8 / (ms * 1e6);
  return {gbps, moves_all(op) || op == all_reduce ? gbps * share : gbps};
}

void communication_log::add(std::span<const rank_spans> step, const std::function<void(const std::string&)>& each) {
  const posted_times posted(step);
  for (const size_t r : stage_leaders(step)) add(step[r], posted, each);
}

void communication_log::add(const rank_spans& rank, const posted_times& posted,
                            const std::function<void(const std::string&)>& each) {
  const auto& p = *rank.plan;
  for (const auto& x : p.instructions) {
    if (x.sequence == plan::none || !speaks(p, x)) continue;
    if (!rank.acted(x.guard)) continue;
    communication_row row = row_of(p, x);
    const auto wanted = [&](const std::string& name) {
      return name == row.op || name == row.purpose || row.op.starts_with(name + "_");
    };
    if (!options_.all && std::none_of(options_.only.begin(), options_.only.end(), wanted)) continue;
    const double ms = double(moving(rank, x.id, posted).length_ns()) / 1e6;
    auto& into = rows_[{row.op, row.purpose, row.message_bytes, row.ranks}];
    if (into.count == 0) into = row;
    ++into.count;
    into.latency_ms += ms;
    if (each) {
      const bandwidth b = bandwidth_of(row.op, row.message_bytes, row.ranks, ms);
      each("comm op: " + shown(row, options_.purpose) +
           text_of(" | time (ms): %.3f | msg size: %s | algbw (Gbps): %.2f | busbw (Gbps): %.2f", ms,
                   core::human_bytes(row.message_bytes).c_str(), b.algorithm_gbps, b.bus_gbps));
    }
  }
}

std::vector<communication_row> communication_log::rows_by_purpose() const {
  std::vector<communication_row> out;
  for (const auto& [key, row] : rows_) out.push_back(row);
  return out;
}

std::vector<communication_row> communication_log::rows() const {
  if (options_.purpose) return rows_by_purpose();
  std::map<std::tuple<std::string, uint64_t, uint32_t>, communication_row> merged;
  for (const auto& [key, row] : rows_) {
    auto [into, fresh] = merged.try_emplace({row.op, row.message_bytes, row.ranks}, row);
    if (fresh) continue;
    into->second.count += row.count;
    into->second.latency_ms += row.latency_ms;
    if (into->second.purpose != row.purpose) into->second.purpose += "+" + row.purpose;
  }
  std::vector<communication_row> out;
  for (auto& [key, row] : merged) out.push_back(std::move(row));
  return out;
}

std::string communication_table(const std::vector<communication_row>& rows, bool purpose) {
  std::string out = text_of("%-24s%-14s%8s%18s%16s%16s%16s\n", "Comm. Op", "Message Size", "Count", "Total Latency(ms)",
                            "Avg Latency(ms)", "algbw (Gbps)", "busbw (Gbps)");
  std::string last;
  for (const auto& r : rows) {
    const std::string name = shown(r, purpose);
    if (name != last) out += name + "\n";
    last = name;
    const bandwidth b = bandwidth_of(r.op, r.message_bytes, r.ranks, r.average_ms());
    out +=
        text_of("%-24s%-14s%8llu%18.2f%16.3f%16.2f%16.2f\n", "", core::human_bytes(r.message_bytes).c_str(),
                static_cast<unsigned long long>(r.count), r.latency_ms, r.average_ms(), b.algorithm_gbps, b.bus_gbps);
  }
  return out;
}

std::string communication_json(const std::vector<communication_row>& rows) {
  std::string out = "{\"operations\":[";
  for (const auto& r : rows) {
    const bandwidth b = bandwidth_of(r.op, r.message_bytes, r.ranks, r.average_ms());
    out += (&r == &rows.front() ? "\n" : ",\n");
    out += fmt::format(
        "{{\"op\":{},\"purpose\":{},\"msg_size_bytes\":{},\"ranks\":{},\"count\":{},\"total_latency_ms\":{},"
        "\"avg_latency_ms\":{},\"algbw_gbps\":{},\"busbw_gbps\":{}}}",
        json_string(r.op), json_string(r.purpose), r.message_bytes, r.ranks, r.count, json_number(r.latency_ms),
        json_number(r.average_ms()), json_number(b.algorithm_gbps), json_number(b.bus_gbps));
  }
  return out + "\n]}\n";
}

}  // namespace troupe::telemetry
