#include "plan/schedule/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/cells.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "plan/schedule/proof.hpp"

namespace troupe::plan {

std::string write_table(const pipeline_table& t) {
  std::string out;
  for (const auto& order : t.orders) {
    for (size_t i = 0; i < order.size(); ++i) out.append(i > 0 ? "," : "").append(name_of(order[i]));
    out += '\n';
  }
  return out;
}

namespace {

using type = action_type;

// Reads an action such as "2SEND_F0"; nothing if the cell has another form.
std::optional<action> read_plain(std::string_view cell) {
  const auto stage = core::take_number<uint32_t>(cell);
  if (!stage) return {};
  const auto name = cell.substr(0, std::min(cell.find_first_of("0123456789"), cell.size()));
  cell.remove_prefix(name.size());
  for (uint32_t k = 0; k < num_action_types; ++k) {
    const auto t = static_cast<type>(k);
    if (t == type::overlap || (name_of(t) != name && !(t == type::backward && name == "BW"))) continue;
    action out{t, *stage, none};
    if (has_micro(t)) {
      const auto micro = core::take_number<uint32_t>(cell);
      if (!micro) return {};
      out.micro = *micro;
    }
    return cell.empty() ? std::optional(out) : std::nullopt;
  }
  return {};
}

// Reads an action, which may be "(0F5;3B2)OVERLAP_F_B" with the two parts in any order.
std::optional<action> read_action(std::string_view cell) {
  if (!cell.starts_with('(')) return read_plain(cell);
  cell.remove_prefix(1);
  std::string_view inner = core::take_cell(cell, ')');
  if (cell != name_of(type::overlap)) return {};
  auto a = read_plain(core::trimmed(core::take_cell(inner, ';'))), b = read_plain(core::trimmed(inner));
  if (a && b && a->type == type::backward) std::swap(a, b);
  if (!a || !b || a->type != type::forward || b->type != type::backward) return {};
  return action{type::overlap, a->stage, a->micro, b->stage, b->micro};
}

using stage_micros = std::set<std::pair<uint32_t, uint32_t>>;

// In a file of the older notation, turns each B that is an input part into I. `whole` are the backwards that are
// written as BW.
void read_old_notation(pipeline_table& t, const stage_micros& whole) {
  stage_micros split;
  for (const auto& order : t.orders)
    for (const action& a : order) {
      if (a.type == type::backward_input) return;
      if (a.type == type::backward_weight) split.emplace(a.stage, a.micro);
    }
  for (auto& order : t.orders)
    for (action& a : order)
      if (a.type == type::backward && split.contains({a.stage, a.micro}) && !whole.contains({a.stage, a.micro}))
        a.type = type::backward_input;
}

class reader {
 public:
  reader(std::string path, const table_size& wanted) : path_(std::move(path)), wanted_(wanted) {}

  core::result<pipeline_table> read(std::string_view text) {
    while (!text.empty() && core::is_ascii_blank(text.back())) text.remove_suffix(1);
    while (!text.empty()) TROUPE_TRY(read_rank(core::take_cell(text, '\n')));
    if (t_.orders.empty()) t_.orders.emplace_back();
    for (uint32_t r = 0; r < t_.ranks(); ++r)
      if (t_.orders[r].empty()) return refuse(r, "wanted a line of actions for each rank, got none");
    if (wanted_.ranks != 0 && wanted_.ranks != t_.ranks())
      return refuse(t_.ranks() - 1,
                    fmt::format("it has lines for {} ranks, the pipeline has {}", t_.ranks(), wanted_.ranks));
    TROUPE_TRY(place());
    read_old_notation(t_, whole_);
    if (const auto fault = find_fault(t_)) return refuse(fault->rank, fault->text);
    return std::move(t_);
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> refuse(uint32_t rank, const std::string& why,
                                                   core::error_kind kind = core::error_kind::bad_input) const {
    return core::fail(kind, fmt::format("{}:{}: {}", path_, rank + 1, why));
  }

  core::result<void> read_rank(std::string_view line) {
    const uint32_t rank = t_.ranks();
    t_.orders.emplace_back();
    while (!line.empty()) {
      auto cell = core::trimmed(core::take_cell(line, ','));
      if (cell.size() > 1 && cell.starts_with('"') && cell.ends_with('"'))
        cell = core::trimmed(cell.substr(1, cell.size() - 2));
      if (cell.empty()) continue;
      const auto a = read_action(cell);
      if (!a)
        return refuse(rank, "unknown action '" + core::shown(cell) +
                                "'; wanted one such as 2F0, 2SEND_F0 or (0F5;3B2)OVERLAP_F_B");
      if (a->type == type::backward && cell.find("BW") != cell.npos) whole_.emplace(a->stage, a->micro);
      t_.orders.back().push_back(*a);
    }
    return {};
  }

  // Derives the rank of each stage, and the numbers of stages and micro-batches, from the table.
  core::result<void> place() {
    uint64_t stages = wanted_.stages, micros = wanted_.micro_batches;
    const auto unknown = [&](const action& part) -> std::string {
      if (wanted_.stages != 0 && part.stage >= wanted_.stages)
        return fmt::format("{}: unknown stage, there are {}", name_of(part), wanted_.stages);
      if (wanted_.micro_batches != 0 && has_micro(part.type) && part.micro >= wanted_.micro_batches)
        return fmt::format("{}: unknown micro-batch, there are {}", name_of(part), wanted_.micro_batches);
      stages = std::max(stages, uint64_t{part.stage} + 1);
      if (has_micro(part.type)) micros = std::max(micros, uint64_t{part.micro} + 1);
      return {};
    };
    for (uint32_t r = 0; r < t_.ranks(); ++r)
      for (const action& a : t_.orders[r]) {
        std::string why;
        for_each_part(a, [&](const action& part) {
          if (why.empty()) why = unknown(part);
        });
        if (!why.empty()) return refuse(r, why);
        if (stages <= max_stage_micro_batches && micros * stages <= max_stage_micro_batches) continue;
        return refuse(r,
                      fmt::format("{} makes it {} stages and {} micro-batches, at most {} are planned", name_of(a),
                                  stages, micros, max_stage_micro_batches),
                      core::error_kind::limit);
      }
    t_.micro_batches = static_cast<uint32_t>(micros);
    t_.rank_of_stage.assign(stages, none);
    return place_each();
  }

  core::result<void> place_each() {
    for (uint32_t r = 0; r < t_.ranks(); ++r)
      for (const action& a : t_.orders[r])
        for_each_part(a, [&](const action& part) {
          auto& rank = t_.rank_of_stage[part.stage];
          if (rank == none) rank = r;
        });
    for (uint32_t s = 0; s < t_.stages(); ++s)
      if (t_.rank_of_stage[s] == none) return refuse(0, fmt::format("no rank has stage {} of {}", s, t_.stages()));
    return {};
  }

  std::string path_;
  table_size wanted_;
  pipeline_table t_;
  stage_micros whole_;
};

}  // namespace

core::result<pipeline_table> read_table(std::string_view text, const std::string& path, const table_size& wanted) {
  return reader(path, wanted).read(text);
}

}  // namespace troupe::plan
