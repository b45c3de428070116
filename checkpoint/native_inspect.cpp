// Text by hand, JSON by nlohmann.
#include "checkpoint/native_inspect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/safetensors_header.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {
namespace {

uint64_t bytes_of_tensor(const tensor_entry& t) { return core::numel_of(t.shape) * core::size_of(t.type); }

std::string human(uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

struct holding {  ///< of one file
  uint64_t pieces = 0, bytes = 0;
};

std::vector<holding> holdings_of(const manifest& m) {
  std::vector<holding> out(m.files.size());
  for (const auto& t : m.tensors)
    for (const auto& p : t.pieces) {
      ++out[p.file].pieces;
      out[p.file].bytes += p.count * core::size_of(t.type);
    }
  return out;
}

uint64_t all_bytes(const manifest& m) {
  uint64_t out = 0;
  for (const auto& t : m.tensors) out += bytes_of_tensor(t);
  return out;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> out(1);
  for (const char c : shown(name)) {
    if (c == '.')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

}  // namespace

std::string inspect_text(const checkpoint_folder& c) {
  const manifest& m = c.content;
  std::string out =
      fmt::format("{}: step {} ({} updates applied), {} tensors of {} in {} files\n", c.folder.string(), m.run.step,
                  m.run.applied_updates, m.tensors.size(), human(all_bytes(m)), m.files.size());
  std::vector<std::string> open;
  for (const auto& t : m.tensors) {
    const auto parts = parts_of(t.name);
    size_t same = 0;
    while (same < open.size() && same < parts.size() && open[same] == parts[same]) ++same;
    for (size_t depth = same; depth < parts.size(); ++depth)
      out += fmt::format("{:{}}{}{}\n", "", 2 * depth + 2, parts[depth],
                         depth + 1 < parts.size() ? "" : fmt::format("  {}", t.shape));
    open = parts;
    std::set<uint32_t> in;
    for (const auto& p : t.pieces) in.insert(p.file);
    std::vector<std::string> names;
    for (const uint32_t f : in) names.push_back(m.files[f].name);
    out += fmt::format("{:{}}{} {}, {}, {} {}: {}\n", "", 2 * parts.size() + 2,
                       t.kind == tensor_kind::moment ? shown(t.moment) : std::string(name_of(t.kind)),
                       core::name_of(t.type), human(bytes_of_tensor(t)), t.pieces.size(),
                       t.pieces.size() == 1 ? "piece" : "pieces", fmt::join(names, ", "));
  }
  for (const auto& t : m.tied) out += fmt::format("  {} is {}\n", shown(t.name), shown(t.of));
  const auto holdings = holdings_of(m);
  for (size_t f = 0; f < m.files.size(); ++f)
    out += fmt::format("{}: {}, {} pieces of {}\n", m.files[f].name, human(m.files[f].bytes), holdings[f].pieces,
                       human(holdings[f].bytes));
  return out;
}

std::string inspect_json(const checkpoint_folder& c) {
  using json = nlohmann::ordered_json;
  const manifest& m = c.content;
  json run{{"step", m.run.step},    {"applied_updates", m.run.applied_updates},
           {"loss_scale", nullptr}, {"data_position", m.run.data_position},
           {"seed", m.run.seed},    {"config", m.run.config},
           {"model", m.run.model},  {"client_state", m.run.client_state}};
  if (m.run.loss_scale)
    run["loss_scale"] = {{"cur_scale", m.run.loss_scale->cur_scale},
                         {"cur_iter", m.run.loss_scale->cur_iter},
                         {"last_overflow_iter", m.run.loss_scale->last_overflow_iter},
                         {"cur_hysteresis", m.run.loss_scale->cur_hysteresis}};
  json out{{"folder", c.folder.string()}, {"version", manifest_version}, {"save_id", to_hex(m.save_id)}, {"run", run}};
  const auto holdings = holdings_of(m);
  auto& files = out["files"] = json::array();
  for (size_t f = 0; f < m.files.size(); ++f)
    files.push_back({{"name", m.files[f].name},
                     {"bytes", m.files[f].bytes},
                     {"pieces", holdings[f].pieces},
                     {"piece_bytes", holdings[f].bytes}});
  uint64_t elements = 0;
  auto& tensors = out["tensors"] = json::array();
  for (const auto& t : m.tensors) {
    elements += core::numel_of(t.shape);
    json pieces = json::array();
    for (const auto& p : t.pieces)
      pieces.push_back({{"file", m.files[p.file].name},
                        {"first", p.first},
                        {"count", p.count},
                        {"offset_bytes", p.offset_bytes},
                        {"digest", to_hex(p.digest)}});
    tensors.push_back({{"name", t.name},
                       {"kind", name_of(t.kind)},
                       {"moment", t.moment},
                       {"dtype", core::name_of(t.type)},
                       {"shape", t.shape},
                       {"bytes", bytes_of_tensor(t)},
                       {"pieces", pieces}});
  }
  auto& tied = out["tied"] = json::array();
  for (const auto& t : m.tied) tied.push_back({{"name", t.name}, {"of", t.of}});
  out["elements"] = elements;
  out["bytes"] = all_bytes(m);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::checkpoint
