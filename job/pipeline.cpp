#include "job/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "config/sections/name_pattern.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "job/blueprint.hpp"
#include "job/run_folder.hpp"
#include "plan/choose/stage_costs.hpp"
#include "plan/schedule/named.hpp"
#include "plan/schedule/proof.hpp"
#include "plan/schedule/search.hpp"
#include "plan/schedule/stage_cut.hpp"
#include "plan/schedule/text.hpp"
#include "plan/schedule/transfers.hpp"

namespace troupe::job {
namespace {

template <class T>
using checked = tl::expected<T, pipeline_problem>;

constexpr const char* schedule_key = "pipeline.schedule";
constexpr const char* partition_key = "pipeline.partition";

tl::unexpected<pipeline_problem> refuse(const char* key, std::string text, error_kind kind = error_kind::bad_input) {
  return tl::unexpected<pipeline_problem>(pipeline_problem{key, {kind, std::move(text)}});
}
tl::unexpected<pipeline_problem> refuse(const char* key, core::error what) {
  return tl::unexpected<pipeline_problem>(pipeline_problem{key, std::move(what)});
}

class chooser {
 public:
  chooser(const config::job_config& c, const core::model_table& table, const plan::plan_options& trains)
      : c_(c),
        p_(c.pipeline),
        table_(table),
        trains_(trains),
        costs_(usual_costs(c)),
        units_(plan::model_units(table, trains, costs_)),
        micros_(trains.accumulation),
        budget_(trains.memory_budget_bytes) {}

  checked<chosen_pipeline> run(bool searches) {
    if (!p_.cuts(c_.parallel.pipeline)) return chosen_pipeline{};
    if (c_.gradient_accumulation_steps > plan::max_stage_micro_batches)
      return refuse("gradient_accumulation_steps",
                    fmt::format("wanted at most {} micro-batches of a pipeline, got {}", plan::max_stage_micro_batches,
                                c_.gradient_accumulation_steps),
                    error_kind::limit);
    if (auto ok = measure(); !ok) return tl::unexpected(ok.error());
    count_teacher();
    const bool sought = p_.schedule == "search";
    if (auto ok = sought ? stand_in() : p_.schedule_file.empty() ? take_named() : read_file(); !ok)
      return tl::unexpected(ok.error());
    if (auto ok = sought ? checked<void>() : check_order(); !ok) return tl::unexpected(ok.error());
    auto cut = cut_units();
    if (!cut) return tl::unexpected(cut.error());
    if (auto ok = computes_everywhere(*cut); !ok) return tl::unexpected(ok.error());
    price(*cut);
    if (sought) {
      if (auto ok = searches ? search() : checked<void>(); !ok) return tl::unexpected(ok.error());
    } else if (auto ok = keeps_to_limits(); !ok) {
      return tl::unexpected(ok.error());
    }
    if (!sought || searches)
      if (auto ok = check_shared_sums(*cut); !ok) return tl::unexpected(ok.error());
    out_.training.first_unit.assign(cut->begin(), cut->end() - 1);
    for (uint32_t& u : out_.training.first_unit) u += table_.teacher_units;
    const auto forward = [&](uint32_t micros) {
      return plan::pipeline_options{out_.training.first_unit, plan::forward_through(out_.training.table, micros)};
    };
    out_.evaluation = forward(evaluated_together(stages()));
    out_.forward = forward(1);
    return std::move(out_);
  }

 private:
  checked<void> measure() {
    if (c_.pipeline.profile == config::profile_choice::never) return {};
    const auto found = find_profile(c_.output, table_, trains_.types.parameter);
    if (!found) return refuse("pipeline.profile", found.error());
    if (!*found) return {};
    plan::take_times(**found, table_, trains_, units_);
    if ((*found)->transfer_s_per_byte > 0) {
      costs_.latency_s = 0;
      costs_.copy_bytes_per_s = 1 / (*found)->transfer_s_per_byte;
    }
    out_.profile = c_.output / plan::profile_file_name;
    return {};
  }

  // Adds the costs of each teacher unit to the model's unit in whose stage it is computed, and removes the teacher's
  // units: the division into stages counts only the model's own units.
  void count_teacher() {
    for (uint32_t t = 0; t < table_.teacher_units; ++t) plan::add_costs(units_[t], units_[table_.beside[t]]);
    units_.erase(units_.begin(), units_.begin() + table_.teacher_units);
  }
  [[nodiscard]] std::span<const core::unit_info> own_units() const {
    return std::span(table_.units).subspan(table_.teacher_units);
  }

  [[nodiscard]] plan::pipeline_table& schedule() { return out_.training.table; }
  [[nodiscard]] uint32_t stages() const { return out_.training.table.stages(); }

  checked<void> room_for(uint64_t chunks) const {
    if (c_.parallel.pipeline * chunks <= own_units().size()) return {};
    return refuse("parallel.pipeline",
                  fmt::format("wanted at most {} stages, one for each unit of the model, got {} ranks x {}{}",
                              own_units().size(), c_.parallel.pipeline, chunks, chunks == 1 ? " chunk" : " chunks"));
  }

  checked<void> take(const plan::named_schedule& named, uint32_t chunks) {
    if (auto ok = room_for(chunks); !ok) return ok;
    auto made = plan::make_table(named, {c_.parallel.pipeline, chunks, micros_, 0});
    if (!made) return refuse(p_.chunks > 0 ? "pipeline.chunks" : schedule_key, made.error());
    schedule() = std::move(*made);
    out_.schedule = named.name;
    return {};
  }
  checked<void> take_named() {
    const auto named = plan::find_schedule(p_.schedule);
    if (!named) return refuse(schedule_key, named.error().text + ", search, or a file ending in .csv");
    return take(**named, p_.chunks > 0 ? p_.chunks : std::max(1U, (*named)->chunks));
  }
  // Sets the schedule 1f1b, with which a search starts: it assigns stages to ranks, and its number of micro-batches in
  // flight is an input of the division into stages.
  checked<void> stand_in() { return take(**plan::find_schedule("1f1b"), std::max(1U, p_.chunks)); }

  checked<void> read_file() {
    const auto text = core::read_file(p_.schedule_file, plan::max_table_bytes);
    if (!text) return refuse(schedule_key, text.error());
    const uint32_t ranks = c_.parallel.pipeline;
    auto read = plan::read_table(*text, p_.schedule_file.string(), {ranks, ranks * p_.chunks, micros_});
    if (!read) return refuse(schedule_key, read.error());
    out_.schedule = p_.schedule_file.string();
    schedule() = plan::computations_of(std::move(*read));
    if (stages() <= own_units().size()) return {};
    return refuse(schedule_key, fmt::format("{}: wanted at most {} stages, one for each unit of the model, got {}",
                                            out_.schedule, own_units().size(), stages()));
  }

  checked<void> check_order() {
    if (!plan::trains(schedule()))
      return refuse(schedule_key, out_.schedule + " has no backward: wanted a schedule that trains");
    const auto fault = plan::find_reordering(schedule());
    if (!fault || p_.any_order) return {};
    return refuse(schedule_key, text_of(*fault) +
                                    ", so gradients are added in another order and bits differ from those of other "
                                    "schedules; set pipeline.any_order: true to allow it");
  }

  // Returns a fault of the schedule as text, with the schedule's name and rank or, if the schedule is a file, with the
  // file and the line of that rank.
  [[nodiscard]] std::string text_of(const plan::table_fault& f) const {
    const bool named = p_.schedule_file.empty();
    return out_.schedule + (named ? fmt::format(", rank {}", f.rank) : fmt::format(":{}", f.rank + 1)) + ": " + f.text;
  }

  // Checks tied weights whose units are in several stages of one rank: their gradients are added in one bucket in the
  // order in which these stages run, so a schedule with another order changes bits.
  checked<void> check_shared_sums(const plan::stage_offsets& cut) const {
    if (p_.any_order || trains_.gradients.tied != plan::tied_gradients::in_bucket) return {};
    std::vector<std::vector<uint32_t>> stages_of(table_.parameters.size());
    for (uint32_t s = 0; s + 1 < cut.size(); ++s)
      for (uint32_t u = cut[s]; u < cut[s + 1]; ++u)
        for (const auto& segment : own_units()[u].segments)
          for (const uint32_t q : segment.parameters)
            if (stages_of[q].empty() || stages_of[q].back() != s) stages_of[q].push_back(s);
    const auto& table = out_.training.table;
    for (uint32_t q = 0; q < stages_of.size(); ++q) {
      const auto& stages = stages_of[q];
      const auto on_one_rank = [&](uint32_t s) {
        return table.rank_of_stage[s] == table.rank_of_stage[stages.front()];
      };
      if (stages.size() < 2 || !table_.parameters[q].trainable || !std::ranges::all_of(stages, on_one_rank)) continue;
      const auto fault = plan::find_reordering(table, stages, trains_.buckets_stay());
      if (!fault) continue;
      return refuse("tied_gradients", "wanted per_use, or pipeline.any_order: true, got in_bucket: " + text_of(*fault) +
                                          " that write to " + table_.parameters[q].name +
                                          ", so its gradients are added in another order and bits differ from those "
                                          "of other schedules");
    }
    return {};
  }

  checked<plan::stage_offsets> cut_units() {
    out_.partition = p_.partition;
    const auto units = static_cast<uint32_t>(own_units().size());
    if (!p_.first_units.empty()) return cut_as_said(units);
    if (p_.partition == "uniform") return plan::cut_evenly(units, stages());
    if (p_.partition == "parameters") return plan::cut_by_weight(trained_elements(), stages());
    if (p_.partition.starts_with("type:")) return cut_by_pattern(p_.partition.substr(5));
    return cut_best();
  }

  checked<plan::stage_offsets> cut_as_said(uint32_t units) {
    out_.partition = "as the file says";
    if (p_.first_units.size() != stages())
      return refuse(partition_key,
                    fmt::format("wanted {} first units, one for each stage, got {}", stages(), p_.first_units.size()));
    plan::stage_offsets offsets = p_.first_units;
    offsets.push_back(units);
    auto cut = plan::check_offsets(std::move(offsets), units, stages());
    if (!cut) return refuse(partition_key, cut.error());
    return std::move(*cut);
  }

  [[nodiscard]] std::vector<double> trained_elements() const {
    std::vector<double> out;
    for (const auto& unit : own_units()) {
      double n = 0;
      for (const uint32_t q : unit.parameters)
        if (table_.parameters[q].trainable) n += static_cast<double>(table_.parameters[q].numel());
      out.push_back(n);
    }
    return out;
  }

  checked<plan::stage_offsets> cut_by_pattern(const std::string& pattern) const {
    std::vector<std::string> names;
    std::vector<size_t> unit_of;
    const auto add = [&](const std::string& name, size_t unit) {
      names.push_back(name);
      unit_of.push_back(unit);
    };
    for (size_t u = 0; u < own_units().size(); ++u) add(own_units()[u].name, u);
    for (const auto& layer : table_.layers)
      if (layer.unit >= table_.teacher_units) add(layer.name, layer.unit - table_.teacher_units);
    const auto found = config::found_in(pattern, names);
    if (!found) return refuse(partition_key, found.error());
    std::vector<double> weights(own_units().size(), 0);
    for (size_t i = 0; i < names.size(); ++i)
      if ((*found)[i]) weights[unit_of[i]] = 1;
    if (std::ranges::count(weights, 1.0) == 0)
      return refuse(partition_key, fmt::format("wanted a pattern that matches the name of a unit or layer, got '{}', "
                                               "which matches none of the {}, of which the first is {}",
                                               core::shown(pattern), names.size(), names.front()));
    return plan::cut_by_weight(weights, stages());
  }

  // Divides the units into stages by their costs. Limits each stage to an equal part of the rank's memory budget;
  // without a division within these limits, ignores the budget, because only the rank's plan shows whether the rank
  // exceeds it.
  checked<plan::stage_offsets> cut_best() const {
    const auto units = plan::costs_for_cut(units_, micros_);
    const uint64_t chunks = std::max(1U, stages() / c_.parallel.pipeline);
    plan::stage_limits limits;
    limits.in_flight = plan::micros_in_flight(out_.training.table);
    if (budget_ > 0) limits.memory_bytes = budget_ / chunks;
    if (p_.memory_limit > 0) limits.activation_bytes = p_.memory_limit / chunks;
    auto best = plan::cut_best(units, stages(), limits);
    if (!best && best.error().kind == error_kind::no_space) best = plan::cut_best(units, stages(), {});
    if (!best) return refuse(partition_key, best.error());
    return std::move(best->offsets);
  }

  checked<void> computes_everywhere(const plan::stage_offsets& cut) const {
    for (size_t s = 0; s + 1 < cut.size(); ++s) {
      const auto first = own_units().begin() + cut[s], end = own_units().begin() + cut[s + 1];
      if (std::any_of(first, end, [](const core::unit_info& u) { return !u.segments.empty(); })) continue;
      return refuse(partition_key, fmt::format("wanted a computation in every stage, got stage {} of only {}{}", s,
                                               first->name, end - first > 1 ? " and others" : ""));
    }
    return {};
  }

  void price(const plan::stage_offsets& cut) {
    out_.costs = plan::costs_of_stages(table_, units_, cut, costs_);
    const auto units = plan::costs_for_cut(units_, micros_);
    for (size_t s = 0; s + 1 < cut.size(); ++s) {
      double all = 0;
      for (uint32_t u = cut[s]; u < cut[s + 1]; ++u) all += units[u].step_s;
      out_.step_s.push_back(all);
    }
    out_.bound = static_cast<uint32_t>(std::ranges::max_element(out_.step_s) - out_.step_s.begin());
  }

  /// Returns the costs for a limit on micro-batches in flight instead of bytes: each stage that keeps the activations
  /// of a micro-batch counts 1 for it.
  [[nodiscard]] plan::pipeline_costs counted_costs() const {
    auto out = out_.costs;
    for (auto& stage : out.stages) stage.activation_bytes = stage.weight_part_bytes = 1;
    return out;
  }
  [[nodiscard]] uint64_t parts_in_flight_max() const {
    return uint64_t{p_.in_flight_limit} * std::max(1U, stages() / c_.parallel.pipeline);
  }

  checked<void> search() {
    plan::search_request wanted{.ranks = c_.parallel.pipeline,
                                .micro_batches = micros_,
                                .costs = p_.in_flight_limit > 0 ? counted_costs() : out_.costs,
                                .memory_bytes = UINT64_MAX,
                                .placement = {}};
    if (p_.in_flight_limit > 0)
      wanted.memory_bytes = parts_in_flight_max();
    else if (p_.memory_limit > 0)
      wanted.memory_bytes = p_.memory_limit;
    auto kept = find_search(c_.output, wanted);
    out_.is_kept = kept.has_value();
    auto found = kept ? core::result<plan::found_schedule>(std::move(*kept)) : plan::search_schedule(wanted);
    if (!found)
      return refuse(p_.in_flight_limit > 0 ? "pipeline.in_flight_limit" : "pipeline.memory_limit", found.error());
    out_.search = plan::write_search(wanted, *found);
    out_.schedule = "search, from " + found->from;
    out_.bound = found->bound_stage;
    out_.least_s = found->bound_s;
    schedule() = std::move(found->table);
    return p_.in_flight_limit > 0 && p_.memory_limit > 0 ? keeps_to_limits() : checked<void>();
  }

  checked<void> keeps_to_limits() {
    const auto most = [&](const plan::pipeline_costs& costs) {
      const auto timing = plan::play_table(schedule(), costs);
      const auto at = std::ranges::max_element(timing.ranks, {}, &plan::rank_timing::peak_bytes);
      return std::pair(static_cast<size_t>(at - timing.ranks.begin()), at->peak_bytes);
    };
    if (p_.memory_limit > 0)
      if (const auto [rank, bytes] = most(out_.costs); bytes > p_.memory_limit)
        return refuse("pipeline.memory_limit",
                      fmt::format("wanted at most {} of activations on a rank, schedule {} keeps {} on rank {}",
                                  core::human_bytes(p_.memory_limit), out_.schedule, core::human_bytes(bytes), rank),
                      error_kind::no_space);
    if (p_.in_flight_limit > 0)
      if (const auto [rank, parts] = most(counted_costs()); parts > parts_in_flight_max())
        return refuse(
            "pipeline.in_flight_limit",
            fmt::format("wanted at most {} micro-batches of stages on a rank, schedule {} keeps {} on rank {}",
                        parts_in_flight_max(), out_.schedule, parts, rank),
            error_kind::no_space);
    return {};
  }

  const config::job_config& c_;
  const config::pipeline_section& p_;
  const core::model_table& table_;
  const plan::plan_options& trains_;
  plan::cost_model costs_;
  std::vector<plan::modelled_unit> units_;
  uint32_t micros_;
  uint64_t budget_;
  chosen_pipeline out_;
};

}  // namespace

uint32_t evaluated_together(uint32_t stages) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(plan::max_stage_micro_batches / stages, 1, 2 * uint64_t{stages}));
}

core::result<chosen_pipeline> choose_pipeline(const config::job_config& config, const core::model_table& table,
                                              const plan::plan_options& trains) {
  auto made = chooser(config, table, trains).run(true);
  if (!made) return core::fail(made.error().what.in(made.error().key));
  return std::move(*made);
}

std::optional<pipeline_problem> find_pipeline_problem(const config::job_config& config, const core::model_table& table,
                                                      const plan::plan_options& trains) {
  const auto made = chooser(config, table, trains).run(false);
  return made ? std::nullopt : std::optional(made.error());
}

}  // namespace troupe::job
